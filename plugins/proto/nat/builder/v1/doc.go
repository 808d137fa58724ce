// Package builderv1 is the Go code that protoc generates from builder.proto, the protocol between nat-go and its
// builder plugins. Authors of builders don't need it: they use the Go types of package builders. The rules for changing
// the protocol are in plugins/proto/README.md.
//
// Part of the supported Go API (v0).
package builderv1
