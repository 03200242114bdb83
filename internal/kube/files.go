package kube

// This file puts files into a ConfigMap and into a pod.

import (
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// mostFiles is the size of a ConfigMap.
const mostFiles = 1 << 20

// Layout is how files lie in a pod.
type Layout struct {
	// WorkingDir is the folder in the pod that stands for the working directory here.
	WorkingDir string
	files      []laidFile
}

type laidFile struct {
	key, path string
	data      []byte
}

// notInKey matches what a key of a ConfigMap can't have.
var notInKey = regexp.MustCompile(`[^-._a-zA-Z0-9]+`)

// LayOut reads files, and lays them out below a folder of a pod as they lie around the working directory, so that
// relative paths stay valid. Files with absolute paths keep theirs.
func LayOut(paths []string, folder string) (Layout, error) {
	here, err := os.Getwd()
	if err != nil {
		return Layout{}, fmt.Errorf("finding the working directory: %w", err)
	}
	paths = slices.Clone(paths)
	slices.Sort(paths)
	paths = slices.Compact(paths)
	root, absolute := here, map[string]string{}
	for _, one := range paths {
		absolute[one] = one
		if filepath.IsAbs(one) {
			continue
		}
		absolute[one] = filepath.Join(here, one)
		for !within(root, absolute[one]) {
			root = filepath.Dir(root)
		}
	}
	place := func(of string) string {
		relative, err := filepath.Rel(root, of)
		if err != nil {
			return folder
		}
		return path.Join(folder, filepath.ToSlash(relative))
	}
	out, size := Layout{WorkingDir: place(here)}, 0
	for i, one := range paths {
		data, err := os.ReadFile(one)
		if err != nil {
			return out, fmt.Errorf("reading the files for the pods: %w", err)
		}
		size += len(data)
		file := laidFile{key: fmt.Sprintf("%03d-%s", i, notInKey.ReplaceAllString(filepath.Base(one), "_")), data: data}
		if file.path = filepath.ToSlash(one); !filepath.IsAbs(one) {
			file.path = place(absolute[one])
		}
		out.files = append(out.files, file)
	}
	if size > mostFiles*9/10 {
		return out, fmt.Errorf("the files for the pods have %d bytes, and a ConfigMap holds %d: put large samples into the "+
			"image and name them by absolute paths", size, mostFiles)
	}
	return out, nil
}

// ConfigMap holds the files.
func (l Layout) ConfigMap(metadata Object) Object {
	data, binary := Object{}, Object{}
	for _, file := range l.files {
		if utf8.Valid(file.data) {
			data[file.key] = string(file.data)
		} else {
			binary[file.key] = base64.StdEncoding.EncodeToString(file.data)
		}
	}
	files := Object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
	if len(binary) > 0 {
		files["binaryData"] = binary
	}
	return files
}

// Mounts mount the files from a volume of the ConfigMap.
func (l Layout) Mounts(volume string) (mounts []any) {
	for _, file := range l.files {
		mounts = append(mounts, Object{"name": volume, "mountPath": file.path, "subPath": file.key, "readOnly": true})
	}
	return mounts
}

// within reports whether a path lies in a folder.
func within(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}
