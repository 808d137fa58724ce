package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPicture: the README's picture of a terminal is what its script draws from this program.
func TestPicture(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "python") {
			t.Fatal("there is no python3, and NATGO_REQUIRE names it")
		}
		t.Skip("SKIPPED: there is no python3, so the README's picture was not compared")
	}
	folder := filepath.Join("..", "..", "examples", "demo")
	got, err := exec.Command("python3", filepath.Join(folder, "picture.py"), program(t)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(folder, "demo.svg"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("`python3 examples/demo/picture.py bin/nat-go > examples/demo/demo.svg` would change it (%v)", err)
	}
}
