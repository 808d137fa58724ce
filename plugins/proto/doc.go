// Package proto holds the source of the builder protocol, nat.builder.v1, for authors who generate a client or a
// plugin in another language; the generated Go code is in nat/builder/v1. The rules that the source can't express,
// and how the protocol may change, are in README.md. The protocol is frozen. A minor version may add to it, but not
// remove anything.
//
// Part of the supported Go API (v0).
package proto
