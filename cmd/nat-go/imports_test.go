package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nat-go/nat-go/"

// mayImport says, for each part of the tree, which parts of it a package may import directly. A pattern ending in /... is
// a whole subtree. A package is judged by the longest pattern it matches; imports within its own pattern are always fine.
var mayImport = map[string][]string{
	"ttc/json":                {},
	"ttc/ledger":              {},
	"ttc/natmodel":            {"ttc/json"},
	"internal/...":            {}, // plumbing without a room
	"kernels/...":             {},
	"builders/finding":        {"internal/..."},
	"builders/yamldoc":        {"internal/...", "builders/finding", "ttc/ledger"},
	"builders/schema":         {"internal/...", "builders/finding", "builders/yamldoc", "ttc/ledger"},
	"ttc/pyvalue":             {"ttc/json"},
	"ttc/chat":                {"ttc/json"},
	"ttc/chat/...":            {"ttc/chat", "ttc/json", "ttc/pyvalue"},
	"ttc":                     {"ttc/chat", "ttc/json", "ttc/ledger"},
	"ttc/source/...":          {"internal/...", "ttc/..."},
	"ttc/group":               {"internal/...", "ttc/..."},
	"pairs":                   {"ttc/..."},
	"builders":                {"ttc", "ttc/json", "ttc/chat", "ttc/ledger"},
	"builders/...":            {"internal/...", "builders", "builders/schema", "builders/finding", "builders/yamldoc", "pairs", "ttc/..."},
	"plugins":                 {},
	"plugins/proto/...":       {},
	"plugins/python":          {},
	"plugins/wire":            {"plugins/proto/...", "builders", "ttc/..."},
	"plugins/sdk/...":         {"internal/...", "plugins/proto/...", "plugins/wire", "builders", "builders/schema", "builders/finding", "builders/yamldoc", "ttc/..."},
	"plugins/host/...":        {"internal/...", "plugins/proto/...", "plugins/wire", "builders", "builders/schema", "builders/finding", "builders/yamldoc", "ttc/..."},
	"plugins/conformance/...": {"internal/...", "plugins/proto/...", "plugins/wire", "plugins/host/...", "plugins/sdk/...", "builders", "builders/schema", "builders/finding", "builders/yamldoc", "ttc/..."},
	"collator":                {"internal/...", "collator/...", "builders", "ttc/..."},
	"collator/...":            {"internal/...", "collator/...", "builders", "ttc/..."},
	"collator/loss":           {"internal/...", "collator/...", "builders", "ttc/...", "kernels/..."},
	"collator/teacher":        {"internal/...", "collator/...", "builders", "ttc/...", "kernels/..."},
	"cmd/...":                 {"..."},
	"examples/...":            {"..."},
}

type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func list(t *testing.T, pattern string) (pkgs []pkg) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Name,Dir,GoFiles,Imports,Deps", pattern).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func matches(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(name+"/", tree)
	}
	return pattern == name
}

func rule(name string) (pattern string) {
	for p := range mayImport {
		if matches(p, name) && (len(p) > len(pattern) || p == name) {
			pattern = p
		}
	}
	return pattern
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range list(t, module+"...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		pattern := rule(name)
		if pattern == "" {
			t.Errorf("%s is in no row of the import table: add one", name)
			continue
		}
		for _, imp := range p.Imports {
			imp, ours := strings.CutPrefix(imp, module)
			if !ours || matches(pattern, imp) {
				continue
			}
			if !slices.ContainsFunc(mayImport[pattern], func(a string) bool { return matches(a, imp) }) {
				t.Errorf("%s imports %s: the import table has no such edge", name, imp)
			}
		}
	}
}

// TestSDKStaysSmall guards a plugin author's build.
func TestSDKStaysSmall(t *testing.T) {
	for _, p := range list(t, module+"plugins/sdk") {
		for _, d := range p.Deps {
			for _, banned := range []string{
				"github.com/daulet/tokenizers", "github.com/parquet-go", "github.com/klauspost/compress",
				module + "builders/dpo", module + "builders/sdpo", module + "builders/grpo", module + "builders/sft",
			} {
				if d == banned || strings.HasPrefix(d, banned+"/") {
					t.Errorf("plugins/sdk depends on %s", path.Clean(d))
				}
			}
		}
	}
}
