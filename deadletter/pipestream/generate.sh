#!/bin/sh
# Makes the Go code of pipestream.proto. It needs protoc; the plugins are those of go.mod.
set -e
plugins=$(mktemp -d)
trap 'rm -r "$plugins"' EXIT
go build -o "$plugins" google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
PATH="$plugins:$PATH" protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative pipestream.proto
