package proto_test

import (
	"bytes"
	"fmt"

	"github.com/nat-go/nat-go/plugins/proto"
)

// A generator writes the source for a plugin in its own language.
func Example() {
	for _, line := range bytes.Split(proto.Source, []byte("\n")) {
		if bytes.HasPrefix(line, []byte("package ")) || bytes.HasPrefix(line, []byte("service ")) {
			fmt.Println(string(line))
		}
	}
	// Output:
	// package nat.builder.v1;
	// service Builder {
}
