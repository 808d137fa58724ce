package main

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outsideOutput is the expected output of testdata/outside.
const outsideOutput = `
<system>Be brief.</>
<user>2 + 2?</>
<assistant>
message 0: "Be brief."
message 1: "2 + 2?"
1 beats 2 by 0.4
2 beats 0 by 0.4
loss 0.2476
a batch of 2 rows, 6 tokens, 4 in the loss; labels: true
error /least least must be at least 0 and at most 1, got 7
demonstration 4
dropped sum 1 outside/too_low
`

// TestOutsideModule builds and runs a program in another module, the way a user of the promised API would: offline,
// from the modules that this repository needs, and without any package that is not promised.
func TestOutsideModule(t *testing.T) {
	source := filepath.Join("testdata", "outside", "main.go")
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, imp := range file.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name, ours := strings.CutPrefix(path, module); ours && !slices.Contains(promised, name) {
			t.Errorf("%s imports %s, which is not promised", source, name)
		}
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for from, to := range map[string]string{source: "main.go", filepath.Join(root, "go.sum"): "go.sum"} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ours := strings.TrimSuffix(module, "/")
	goMod := "module example.com/outside\n\ngo 1.26.0\n\nrequire " + ours + " v0.0.0\n\nreplace " + ours + " => " +
		strconv.Quote(root) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(goMod), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "outside")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod", "GOPROXY=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(binary).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := string(out); got != strings.TrimPrefix(outsideOutput, "\n") {
		t.Errorf("it printed\n%s", got)
	}
}
