package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nat-go/nat-go/"

// mayImport lists, for each part of the tree, the parts that a package in it may import directly. A pattern ending in
// /... is a whole subtree. A package is judged by the longest pattern it matches; imports within its own pattern are
// always fine.
var mayImport = map[string][]string{
	"ttc/json":             {"ttc/internal/pytext"},
	"ttc/ledger":           {},
	"internal/...":         {}, // plumbing that belongs to no room
	"internal/calls":       {"ttc", "ttc/chat", "ttc/json"},
	"internal/history":     {"ttc", "ttc/chat", "ttc/json"},
	"internal/natmodel":    {"ttc/json"},
	"internal/redact":      {"internal/...", "ttc", "ttc/chat", "ttc/json"},
	"internal/where":       {"builders", "builders/finding", "ttc", "ttc/chat", "ttc/ledger"},
	"internal/sessiontest": {"internal/...", "builders", "builders/schema", "ttc/..."},
	"kernels/...":          {},
	"builders/finding":     {"internal/..."},
	"builders/yamldoc":     {"internal/...", "builders/finding", "ttc/ledger"},
	"builders/schema":      {"internal/...", "builders/finding", "builders/yamldoc", "ttc/ledger"},
	"ttc/internal/...":     {},
	"ttc/pyvalue":          {"ttc/json", "ttc/internal/pytext"},
	"ttc/chat":             {"ttc/json"},
	"ttc/chat/...":         {"internal/lists", "ttc/chat", "ttc/json", "ttc/pyvalue", "ttc/internal/pytext"},
	"ttc":                  {"ttc/chat", "ttc/json", "ttc/ledger"},
	"ttc/source/...":       {"internal/...", "ttc/..."},
	"ttc/group":            {"internal/...", "ttc/..."},
	"pairs":                {"ttc/..."},
	"builders":             {"ttc", "ttc/json", "ttc/chat", "ttc/ledger"},
	"builders/...": {
		"internal/...", "builders", "builders/schema", "builders/finding", "builders/yamldoc", "pairs", "ttc/...",
	},
	"builders/states": {
		"builders/internal/...", "builders/sdpo", "builders", "builders/schema", "internal/where", "ttc/...",
	},
	"plugins":               {},
	"plugins/proto/...":     {},
	"plugins/python":        {},
	"plugins/internal/wire": {"plugins/proto/...", "builders", "builders/finding", "ttc/..."},
	"plugins/sdk/...": {
		"internal/...", "plugins/proto/...", "plugins/internal/wire", "builders", "builders/schema", "builders/finding",
		"builders/yamldoc", "ttc/...",
	},
	"plugins/host": {"plugins/internal/...", "builders", "ttc/..."},
	"plugins/internal/host": {
		"internal/...", "plugins/proto/...", "plugins/internal/wire", "builders", "builders/schema", "builders/finding",
		"builders/yamldoc", "ttc/...",
	},
	"plugins/conformance": {"plugins/internal/...", "plugins/sdk", "builders", "ttc/..."},
	"plugins/internal/kit": {
		"internal/...", "plugins/proto/...", "plugins/internal/wire", "plugins/internal/host", "builders",
		"builders/finding", "builders/schema", "ttc/...",
	},
	"collator":         {"internal/...", "collator/...", "builders", "ttc/..."},
	"collator/...":     {"internal/...", "collator/...", "builders", "ttc/..."},
	"collator/loss":    {"internal/...", "collator/...", "builders", "ttc/...", "kernels/..."},
	"collator/teacher": {"internal/...", "collator/...", "builders", "ttc/...", "kernels/..."},
	"cmd/...":          {"..."},
	// A stage imports neither the driver, finetune, nor another stage.
	stages + "...": {
		"builders/...", "collator/...", "internal/...", "kernels/...", "plugins/...", "ttc/...",
		"cmd/nat-go/internal/builtin", "cmd/nat-go/internal/compat", "cmd/nat-go/internal/config",
		"cmd/nat-go/internal/curate", "cmd/nat-go/internal/dataset", "cmd/nat-go/internal/exit",
		"cmd/nat-go/internal/explain", "cmd/nat-go/internal/inspect", "cmd/nat-go/internal/marks",
		"cmd/nat-go/internal/overlap", "cmd/nat-go/internal/plugins", "cmd/nat-go/internal/recordlog",
		"cmd/nat-go/internal/runfolder", "cmd/nat-go/internal/shards", "cmd/nat-go/internal/trainers/...",
	},
	"examples/...": {"..."},
}

// stages precedes the names of the packages of a run's stages.
const stages = "cmd/nat-go/internal/stage/"

type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
	Module     *struct{ Path string }
}

func list(t *testing.T, patterns ...string) (pkgs []pkg) {
	t.Helper()
	args := append([]string{"list", "-json=ImportPath,Name,Dir,GoFiles,Imports,Deps,Module"}, patterns...)
	out, err := exec.Command("go", args...).Output()
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
			if imp == "text/template" || imp == "html/template" {
				t.Errorf("%s imports %s, with which the linker keeps every exported method of the program: 5 MB", name, imp)
			}
			imp, ours := strings.CutPrefix(imp, module)
			if strings.HasPrefix(name, stages) && strings.HasPrefix(imp, stages) {
				t.Errorf("stage %s imports stage %s", name, imp)
			}
			if !ours || matches(pattern, imp) {
				continue
			}
			if !slices.ContainsFunc(mayImport[pattern], func(a string) bool { return matches(a, imp) }) {
				t.Errorf("%s imports %s: the import table has no such edge", name, imp)
			}
		}
	}
}

// sdkNeeds lists the packages of ours that a plugin links besides the SDK: the contract, its types and the wire.
var sdkNeeds = []string{
	"plugins/proto/nat/builder/v1", "plugins/sdk", "plugins/internal/wire",
	"builders", "builders/finding", "builders/schema", "builders/yamldoc",
	"ttc", "ttc/chat", "ttc/internal/pytext", "ttc/json", "ttc/ledger", "internal/lazy", "internal/lists",
	"internal/secret", "internal/terminal",
}

// sdkModules lists the modules that a plugin links: gRPC's, the validator's, and YAML.
var sdkModules = []string{
	"github.com/gabriel-vasile/mimetype", "github.com/go-playground/locales",
	"github.com/go-playground/universal-translator", "github.com/go-playground/validator/v10",
	"github.com/leodido/go-urn", "golang.org/x/crypto", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
	"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf",
	"gopkg.in/yaml.v3",
}

// TestSDKStaysSmall guards a plugin author's build: the lists name everything that it links, and none of our packages
// needs a C compiler or speaks HTTP.
func TestSDKStaysSmall(t *testing.T) {
	sdk := list(t, module+"plugins/sdk")
	if len(sdk) != 1 {
		t.Fatalf("go list gives %d packages for plugins/sdk", len(sdk))
	}
	linked := map[string]bool{}
	for _, p := range list(t, append(slices.Clone(sdk[0].Deps), sdk[0].ImportPath)...) {
		name, ours := strings.CutPrefix(p.ImportPath, module)
		linked[name] = true
		if p.Module != nil {
			linked[p.Module.Path] = true
		}
		switch {
		case ours && !slices.Contains(sdkNeeds, name):
			t.Errorf("plugins/sdk depends on %s", name)
		case ours:
			for _, imp := range p.Imports {
				if imp == "C" || imp == "net/http" {
					t.Errorf("%s, which plugins link, imports %s", name, imp)
				}
			}
		case p.Module != nil && !slices.Contains(sdkModules, p.Module.Path):
			t.Errorf("plugins/sdk depends on %s of module %s", p.ImportPath, p.Module.Path)
		}
	}
	for _, name := range slices.Concat(sdkNeeds, sdkModules) {
		if !linked[name] {
			t.Errorf("plugins/sdk no longer depends on %s: take it off the list", name)
		}
	}
}
