#!/bin/sh
# Generates the Go and Python code of nat/builder/v1/builder.proto. The proto keeps its full path, because a proto file's name is
# global in a Go binary, and in a Python process. Needs protoc; the Go generators are fetched at the versions pinned here.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative nat/builder/v1/builder.proto
# For the Python package natgo. The module doesn't import anything next to it, so it can be moved there from
# nat/builder/v1.
protoc --python_out="$bin" --pyi_out="$bin" nat/builder/v1/builder.proto
cp "$bin"/nat/builder/v1/builder_pb2.py "$bin"/nat/builder/v1/builder_pb2.pyi ../python/natgo/builder/
