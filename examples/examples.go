package examples

import "embed"

// Python is the folder python-builder.
//
//go:embed python-builder/main.py python-builder/natgo.py python-builder/builder_pb2.py python-builder/requirements.txt
var Python embed.FS
