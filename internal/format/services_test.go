package format

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const (
	payments = `syntax = "proto3";
package acme.v1;
import "money.proto";
message Receipt { string payment = 1; acme.v1.Money paid = 2; }
service Payments { rpc Charge(Money) returns (Receipt); rpc Watch(Money) returns (stream Receipt); }`
	money = `syntax = "proto3"; package acme.v1; message Money { int64 cents = 1; }`
)

// protos writes files into a folder and returns it.
func protos(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestMethods(t *testing.T) {
	dir := protos(t, map[string]string{"payments.proto": payments, "money.proto": money, "bad.proto": "message",
		"none.proto": money, "noise.binpb": "\x00noise"})
	proto3 := filepath.Join(dir, "payments.proto")
	methods, err := Methods(proto3)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/acme.v1.Payments/Charge", "/acme.v1.Payments/Watch"}
	if names := slices.Sorted(maps.Keys(methods)); !slices.Equal(names, want) {
		t.Errorf("the methods are %v, want %v", names, want)
	}
	file := methods[want[0]].ParentFile()
	set := must.Get(proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(file.Imports().Get(0)), protodesc.ToFileDescriptorProto(file)}}))(t)
	described := filepath.Join(dir, "payments.binpb")
	must.Do(t, os.WriteFile(described, set, 0o600))
	if methods, err = Methods(described); err != nil || !slices.Equal(slices.Sorted(maps.Keys(methods)), want) {
		t.Errorf("from a set of descriptors: %v, %v", methods, err)
	}
	for name, want := range map[string]string{"bad.proto": "this is no Protobuf schema", "none.proto": "has no service",
		"noise.binpb": "this is no set of descriptors", "missing.proto": "no such file", ".": "is not a file"} {
		if _, err := Methods(filepath.Join(dir, name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestResponse(t *testing.T) {
	dir := protos(t, map[string]string{"payments.proto": payments, "money.proto": money})
	methods := must.Get(Methods(filepath.Join(dir, "payments.proto")))(t)
	charge := methods["/acme.v1.Payments/Charge"]
	if got, err := Response(charge, `{"payment": "p", "paid": {"cents": "3"}}`); string(got) != "\n\x01p\x12\x02\b\x03" {
		t.Errorf("the response is %q, %v", got, err)
	}
	for body, want := range map[string]string{`{"pay": "p"}`: `unknown field "pay"`, `{"payment"`: "unexpected EOF"} {
		if _, err := Response(charge, body); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", body, err, want)
		}
	}
}
