package finetune

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
)

const decidedConfig = `
sources: {in: {_type: workflow_output, path: [in.json]}}
trajectory_builders: {moves: {_type: dpo_traj_builder, strategy: "${STRATEGY:-adjacent}"}, idle: {_type: dpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer, max_pairs: 100}}
trainer_adapters:
  a: {_type: nemo_customizer_trainer_adapter, entity_host: "http://${HOST:-127.0.0.1:1}", datastore_host: "http://127.0.0.1:1",
      hyperparameters: {epochs: 1}, customization_config: m/c@v1, namespace: n, hf_token: "${TOKEN}"}
dataset: {formats: [trl], split: {seed: 7}}
finetuning: {enabled: true, trajectory_builder: moves, trainer: t, output_dir: out}
`

// begunRun returns a run that was killed before its data set was complete, and the run's environment.
func begunRun(t *testing.T, vars map[string]string) (runfolder.Folder, stage.Env) {
	t.Helper()
	t.Chdir(t.TempDir())
	var text bytes.Buffer
	if err := bench.Generate(&text, bench.Shape{Examples: 10, Turns: 2, Candidates: 4, Seed: 3}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile("in.json", text.Bytes(), 0o600),
		os.WriteFile("config.yml", []byte(decidedConfig), 0o600)); err != nil {
		t.Fatal(err)
	}
	vars["TOKEN"] = "secret-of-the-hub"
	env := testEnv(t)
	env.Getenv = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	if _, err := Run(context.Background(), Request{
		ConfigFile: "config.yml",
		RunID:      "r",
		DryRun:     true,
	}, env); err != nil {
		t.Fatal(err)
	}
	f := runfolder.Folder("out/r")
	for _, path := range []string{f.Manifest(), f.Dropped(), f.Dataset()} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	return f, env
}

func replace(t *testing.T, path, old, now string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q: %v", path, old, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, now, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestResumeRefusesOtherSettings checks that a run can't be resumed after a change to anything that determines its data
// set, and that the error names the change.
func TestResumeRefusesOtherSettings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, f runfolder.Folder, vars map[string]string, how *Request)
		want   string // expected name in the error; empty means that the run continues
	}{
		"nothing": {func(*testing.T, runfolder.Folder, map[string]string, *Request) {}, ""},
		"a variable": {
			func(_ *testing.T, _ runfolder.Folder, v map[string]string, _ *Request) { v["STRATEGY"] = "exhaustive" },
			"trajectory_builders.moves.strategy",
		},
		"the file": {func(t *testing.T, f runfolder.Folder, _ map[string]string, _ *Request) {
			replace(t, f.Config(), "max_pairs: 100", "max_pairs: 3")
		}, "trainers.t.max_pairs"},
		"a key more": {func(t *testing.T, f runfolder.Folder, _ map[string]string, _ *Request) {
			replace(t, f.Config(), "seed: 7", "seed: 7\n    by: task")
		}, "dataset.split.by"},
		"a key less": {func(t *testing.T, f runfolder.Folder, _ map[string]string, _ *Request) {
			replace(t, f.Config(), "seed: 7", "validation: 0.2")
		}, "dataset.split.seed, dataset.split.validation"},
		"an override": {func(_ *testing.T, _ runfolder.Folder, _ map[string]string, how *Request) {
			how.Overrides = []string{"dataset.split.seed=8"}
		}, "dataset.split.seed"},
		"the formats": {func(_ *testing.T, _ runfolder.Folder, _ map[string]string, how *Request) {
			how.Overrides = []string{"dataset.formats=[kto]"}
		}, "dataset.formats.0, formats"},
		"nat-go": {func(t *testing.T, f runfolder.Folder, _ map[string]string, _ *Request) {
			b, err := f.ReadBegun()
			if err == nil {
				b.Decided.Add("nat-go", "another")
				err = f.WriteBegun(b)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "nat-go"},
		"what nothing reads": {func(t *testing.T, f runfolder.Folder, v map[string]string, how *Request) {
			v["HOST"], v["TOKEN"] = "127.0.0.1:2", "changed"
			how.Overrides = []string{"trajectory_builders.idle.strategy=exhaustive"}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{}
			f, env := begunRun(t, vars)
			how := Request{Resume: f}
			c.change(t, f, vars, &how)
			_, err := Run(t.Context(), how, env)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if exit.Code(err) != exit.Failed || !strings.HasPrefix(err.Error(), c.want+" changed since the run began") {
				t.Fatalf("%v, want it to name %s", err, c.want)
			}
			if runfolder.Has(f.Manifest()) {
				t.Error("the run is complete")
			}
			how.Accept = []string{"no-such-name"}
			if _, err := Run(t.Context(), how, env); exit.Code(err) != exit.Usage {
				t.Errorf("accepting a setting that did not change: %v", err)
			}
			how.Accept = strings.Split(c.want, ", ")
			if _, err := Run(t.Context(), how, env); err != nil {
				t.Fatal(err)
			}
			m, err := f.ReadManifest()
			if err != nil || !slices.Equal(m.Accepted, strings.Split(c.want, ", ")) {
				t.Errorf("the manifest has %v, %v", m.Accepted, err)
			}
			if r := verifyRun(t, f); r.Errors > 0 {
				t.Errorf("%+v", r.Findings)
			}
		})
	}
}

// TestDecidedHoldsNoValues checks that settings are recorded only as hashes, since any of them may be a secret.
func TestDecidedHoldsNoValues(t *testing.T) {
	f, _ := begunRun(t, map[string]string{"STRATEGY": "exhaustive"})
	text, err := os.ReadFile(f.Begun())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("trajectory_builders.moves.strategy")) ||
		bytes.Contains(text, []byte("exhaustive")) {
		t.Errorf("%s", text)
	}
	a, errA := f.ReadBegun()
	other, _ := begunRun(t, map[string]string{"STRATEGY": "exhaustive"})
	b, errB := other.ReadBegun()
	if errA == nil && errB == nil && a.Decided.Salt == b.Decided.Salt {
		t.Error("two runs have the same salt")
	}
}

// TestDecidedByAPluginsProgram checks that a plugin is identified by its content and the variables passed to it.
func TestDecidedByAPluginsProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "plugin.py")
	beside := filepath.Join(dir, "helper.py")
	for _, path := range []string{program, beside} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := `
trajectory_builders: {mine: {_type: acme/x}}
plugins: {acme: {path: ` + program + `, args: [serve], env: [ACME_MODE], instances: 2}}
finetuning: {enabled: true, trajectory_builder: mine}
`
	t.Chdir(dir)
	if err := os.WriteFile("config.yml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ACME_MODE", "one")
	decided := func(salt string, overrides ...string) *runfolder.Decided {
		p, err := newPlan(t.Context(), Request{ConfigFile: "config.yml", RunID: "r", Overrides: overrides}, testEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		d, err := (&run{plan: p}).decided(salt)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := decided("")
	if got := before.Changed(decided(before.Salt, "plugins.acme.instances=3")); len(got) > 0 {
		t.Errorf("other instances: %v", got)
	}
	for _, c := range []struct {
		change func() error
		want   string
	}{
		{func() error { return os.WriteFile(beside, []byte("#!/bin/sh\n# changed"), 0o755) }, "plugins.acme.program"},
		{func() error { return os.WriteFile(program, []byte("#!/bin/sh\n# changed"), 0o755) }, "plugins.acme.program"},
		{func() error { return os.Setenv("ACME_MODE", "two") }, "plugins.acme.env.ACME_MODE"},
		{func() error { replace(t, "config.yml", "[serve]", "[other]"); return nil }, "plugins.acme.args.0"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if err := c.change(); err != nil {
				t.Fatal(err)
			}
			now := decided(before.Salt)
			if got := before.Changed(now); !slices.Equal(got, []string{c.want}) {
				t.Errorf("got %v, want %s", got, c.want)
			}
			before = now
		})
	}
}

// TestResumeOverridesWhatComesAfter checks that for a complete run the trainer can be changed but the data set can't.
func TestResumeOverridesWhatComesAfter(t *testing.T) {
	f, env := begunRun(t, map[string]string{})
	if _, err := Run(t.Context(), Request{Resume: f}, env); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Request{Resume: f, Overrides: []string{"dataset.split.seed=9"}},
		env); exit.Code(err) != exit.Usage ||
		!strings.Contains(err.Error(), "-o dataset.split.seed") {
		t.Error(err)
	}
	if _, err := Run(t.Context(), Request{Resume: f, Accept: []string{"nat-go"}}, env); exit.Code(err) != exit.Usage {
		t.Error(err)
	}
	if _, err := Run(t.Context(), Request{Resume: f, Overrides: []string{"finetuning.num_epochs=3"}}, env); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(f.Config()); err != nil || !bytes.Contains(text, []byte("num_epochs: 3")) {
		t.Errorf("%s, %v", text, err)
	}
	if r := verifyRun(t, f); r.Errors > 0 {
		t.Errorf("%+v", r.Findings)
	}
}

// TestDecidedByFiles checks that the hint command's program and script, and the dumped logits, are identified by their
// content. Folders aren't part of the identity, so that a folder that a program creates doesn't prevent resuming the
// run.
func TestDecidedByFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755))
		if err != nil {
			t.Fatal(err)
		}
	}
	write("config.yml", `
trajectory_builders:
  h:
    _type: sdpo_traj_builder
    hints: {allow: [knowable, hindsight], sources: [command], command: {run: [./hint.sh, script.py, cache], answers: a}}
collator: {tokenizer: t, teacher: {dumps: dumps}}
finetuning: {enabled: true, trajectory_builder: h, output_dir: out}
`)
	c, found := config.Load("config.yml", config.Options{Types: builtin.Types(), Getenv: os.LookupEnv})
	if c == nil {
		t.Fatal(found)
	}
	files := map[string]string{
		"hint.sh":                        "trajectory_builders.h.hints.command.run.0.content",
		"script.py":                      "trajectory_builders.h.hints.command.run.1.content",
		"dumps/sdpo/train-0.safetensors": "collator.teacher.dumps.sdpo/train-0.safetensors",
	}
	decided := func() *runfolder.Decided {
		d := runfolder.NewDecided("salt")
		x := run{plan: &plan{config: c}}
		if err := x.addNamedFiles(d); err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := decided(); len(d.Hashes) > 0 {
		t.Errorf("with missing files: %v", d.Hashes)
	}
	write("cache/made", "by the program") // while the program ran
	if d := decided(); len(d.Hashes) > 0 {
		t.Errorf("with a folder: %v", d.Hashes)
	}
	for name := range files {
		write(name, "before")
	}
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			before := decided()
			write(name, "after")
			if changed := before.Changed(decided()); !slices.Equal(changed, []string{want}) {
				t.Errorf("%s: %v changed, want %s", name, changed, want)
			}
		})
	}
}
