package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTraces checks that the file is what the program writes.
func TestTraces(t *testing.T) {
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("traces.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("go run ./examples/rollouts writes (-want +got):\n%s", d)
	}
}
