package proto

import _ "embed"

// Source is the content of nat/builder/v1/builder.proto.
//
//go:embed nat/builder/v1/builder.proto
var Source []byte
