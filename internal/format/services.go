package format

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Methods returns the methods of the gRPC services in a file by their full names, such as /acme.v1.Payments/Charge. The
// file is a .proto, whose imports are found beside it, or a set of descriptors as `protoc --descriptor_set_out
// --include_imports` and `buf build` write it. It may have 1 MiB.
func Methods(file string) (map[string]protoreflect.MethodDescriptor, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the services: %w", err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file: name the one with the service", file)
	case info.Size() > maxSchema:
		return nil, fmt.Errorf("%s has more than %d MiB, which no service needs", file, maxSchema>>20)
	}
	var files []protoreflect.FileDescriptor
	if filepath.Ext(file) == ".proto" {
		var one linker.File
		one, err = compiled(file, "")
		files = append(files, one)
	} else {
		files, err = descriptorSet(file)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the services of %s: %w", file, err)
	}
	methods := map[string]protoreflect.MethodDescriptor{}
	for _, one := range files {
		for i := range one.Services().Len() {
			service := one.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				methods[fmt.Sprintf("/%s/%s", service.FullName(), method.Name())] = method
			}
		}
	}
	if len(methods) == 0 {
		return nil, fmt.Errorf("%s has no service with a method", file)
	}
	return methods, nil
}

// compiled returns the file that a .proto describes, with where in it everything stands. A text stands for what is in
// the file.
func compiled(file, text string) (linker.File, error) {
	sources := &protocompile.SourceResolver{ImportPaths: []string{filepath.Dir(file)}}
	name := filepath.Base(file)
	if file == "" {
		name = "schema.proto"
	}
	if text != "" {
		given := filepath.Join(filepath.Dir(file), name)
		sources.Accessor = func(path string) (io.ReadCloser, error) {
			if path == given {
				return io.NopCloser(strings.NewReader(text)), nil
			}
			if file == "" {
				return nil, fs.ErrNotExist
			}
			return os.Open(path)
		}
	}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(sources),
		SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(context.Background(), name)
	if err != nil {
		return nil, fmt.Errorf("this is no Protobuf schema: %w", err)
	}
	return files[0], nil
}

// descriptorSet returns the files in a set of descriptors.
func descriptorSet(file string) (files []protoreflect.FileDescriptor, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	var registry *protoregistry.Files
	if err = proto.Unmarshal(text, &set); err == nil {
		registry, err = protodesc.NewFiles(&set)
	}
	if err != nil {
		return nil, fmt.Errorf("this is no set of descriptors with all that it imports (a .proto must be called so): %w", err)
	}
	registry.RangeFiles(func(one protoreflect.FileDescriptor) bool {
		files = append(files, one)
		return true
	})
	return files, nil
}

// Response returns the response of a method in the wire format, from its JSON form. The error says how it does not fit.
func Response(method protoreflect.MethodDescriptor, body string) ([]byte, error) {
	message := dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(body), message); err != nil {
		// The texts of protobuf-go differ from build to build in a space.
		text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
		return nil, fmt.Errorf("the body does not fit the message %s: %s", message.Descriptor().FullName(), text)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(message)
}
