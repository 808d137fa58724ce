package sdk

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
)

// TestDependencies checks that a plugin author's build stays small: no cgo, tokenizer, Parquet, compression or built-in
// builder.
func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}{{if .CgoFiles}} CGO{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		for _, bad := range []string{
			"tokenizers", "parquet", "klauspost", "hashicorp", "internal/process", "nat-go/builders/dpo",
			"nat-go/builders/sft", "nat-go/builders/sdpo", "nat-go/builders/grpo", "nat-go/collator", "nat-go/kernels",
			"nat-go/plugins/internal/host", "nat-go/cmd", "nat-go/ttc/source",
		} {
			if strings.Contains(line, bad) {
				t.Errorf("the SDK pulls in %s", line)
			}
		}
		if strings.HasSuffix(line, " CGO") && strings.Contains(line, ".") {
			t.Errorf("the SDK pulls in cgo: %s", line)
		}
	}
}

type testConfig struct {
	Least float64 `yaml:"least" default:"0.5" validate:"gte=0,lte=1" doc:"lowest score"`
	Fail  string  `yaml:"fail" doc:"message of the error to fail with"`
}

func testPlugin() Plugin {
	return Plugin{Name: "test", Version: "1.2.3", Builders: []Factory{
		New(builders.Info{
			Name:      "best",
			Stability: "beta",
			Doc:       "the best candidate",
			Kinds:     []builders.Kind{builders.KindDemonstration},
		}, func(c *testConfig) (builders.Builder, error) {
			if c.Fail == "config" {
				return nil, errors.New("fail and least don't go together")
			}
			return best{*c}, nil
		}),
	}}
}

type best struct{ testConfig }

func (b best) Build(_ context.Context, g *ttc.Group, out builders.Output) error {
	for e, ex := range g.Examples {
		for i := range ex.Candidates {
			if ex.Candidates[i].Score >= b.Least {
				c := builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Example: e, Candidate: i}}
				if err := out.Record(&builders.Demonstration{
					Head:     builders.Head{Example: e},
					Messages: c,
					Weight:   1,
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func TestOpen(t *testing.T) {
	f := testPlugin().Builders[0]
	b, found := f.Open([]byte(`{"least": 0.7}`))
	if got := b.(best).Least; got != 0.7 || found != nil {
		t.Errorf("%v %v", got, found)
	}
	if b, _ := f.Open(nil); b.(best).Least != 0.5 {
		t.Error("defaults are not filled in")
	}
	for config, want := range map[string]string{`{"least": 7}`: "/least", `{"leest": 1}`: "/leest", `{"fail":"config"}`: "", `[`: ""} {
		t.Run(config, func(t *testing.T) {
			b, found := f.Open([]byte(config))
			if b != nil || len(found) == 0 || found[0].Pointer != want {
				t.Errorf("%s: %v", config, found)
			}
		})
	}
}

// TestTryWithoutNatGo: anyone who doesn't have nat-go on PATH is told what to do.
func TestTryWithoutNatGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	code := commandLine(testPlugin(), []string{"try", "rows.jsonl"}, &out, &errs)
	said := errs.String()
	if code != 1 || !strings.Contains(said, "cannot find nat-go, which reads the file, on PATH") || !strings.Contains(said, "--from rows.jsonl") {
		t.Errorf("code %d: %s", code, &errs)
	}
}

func TestCommandLine(t *testing.T) {
	bin := t.TempDir() // as much of nat-go as try needs
	os.WriteFile(filepath.Join(bin, "nat-go"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"", 2, "", "is a nat-go plugin"},
		{"nonsense", 2, "", "commands:"},
		{"describe", 0, `"name": "best"`, ""},
		{"schema", 0, `"maximum": 1`, ""},
		{"schema other", 1, "", `unknown builder "other"`},
		{"version", 0, "test 1.2.3", ""},
		{"try", 1, "", "needs a file"},
		{"try rows.jsonl --builder best", 0, "--from rows.jsonl --builder best", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := commandLine(testPlugin(), strings.Fields(c.args), &out, &errs)
			if code != c.code || !strings.Contains(out.String(), c.out) ||
				!strings.Contains(strings.ToLower(errs.String()), strings.ToLower(c.err)) {
				t.Errorf("%q: code %d\n%s\n%s", c.args, code, out.String(), errs.String())
			}
		})
	}
}
