package proto

import _ "embed"

// Source is nat/builder/v1/builder.proto.
//
//go:embed nat/builder/v1/builder.proto
var Source []byte
