// Package proto holds the source of the builder protocol, nat.builder.v1; the generated code lies under nat/builder/v1.
package proto

import _ "embed"

// Source is nat/builder/v1/builder.proto.
//
//go:embed nat/builder/v1/builder.proto
var Source []byte
