// Package builderv1 is the Go code that protoc makes of builder.proto, the protocol between nat-go and its builder plugins.
// It is for the packages under plugins alone: authors of builders see the Go types of package builders. The rules for
// changing the protocol are in plugins/proto/README.md.
package builderv1
