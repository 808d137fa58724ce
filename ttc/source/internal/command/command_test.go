package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/source/internal/nat"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const natYAML = `
workflow: {_type: w, prompt: "file://p.txt", key: "${SECRET_KEY}", n: 007}
eval:
  general: &g
    output: {dir: elsewhere, workflow_output_step_filter: [TTC_END], job_management: {append_job_id_to_output_dir: true}}
    dataset: {_type: json, file_path: q.json}
  evaluators: {e: {_type: x}}
`

// program writes the output that nat eval would write.
const program = `echo working; out="$1"; echo "[{\"id\": \"r$2\", \"question\": \"q\", \"generated_answer\": \"a\", \"intermediate_steps\": []}]" > "$out/workflow_output.json"; echo secret > "$out/config_effective.yml"`

func shell(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, args...)
}

func TestCollect(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.Runs, cfg.NATConfig = 2, file(t, "nat.yml", natYAML)
	cfg.Command = shell(program+`; echo x >> "`+t.TempDir()+`/count"; grep -q "dir: $1" "$3" || exit 9; ls -l "$3" | grep -q '^-rw-------' || exit 8; echo "$3" > "$1/copy"`, "{output_dir}", "{run}", "{config}")
	dir := t.TempDir()
	read := schema.New[nat.Config]()
	var err error
	if read.Path, err = collect(t.Context(), cfg, dir); err != nil {
		t.Fatal(err)
	}
	s, err := nat.Open(t.Context(), read, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids []string
	for {
		ex, _, err := s.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, ex.ID)
	}
	if strings.Join(ids, " ") != "r0 r1" {
		t.Error(ids)
	}
	for _, run := range []string{"run0", "run1"} {
		if log, err := os.ReadFile(filepath.Join(dir, run, logFile)); strings.Count(string(log), "working") != 1 {
			t.Errorf("%s printed %q, %v", run, log, err)
		}
	}
	copied, err := os.ReadFile(filepath.Join(dir, "run0", "output", "copy"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(strings.TrimSpace(string(copied))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of the configuration is left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run0", "output", "config_effective.yml")); !errors.Is(err,
		os.ErrNotExist) {
		t.Error("NAT's own copy of the configuration is left")
	}
	cfg.Command = shell("exit 1")
	if paths, err := collect(t.Context(), cfg, dir); err != nil || len(paths) != 2 {
		t.Errorf("complete runs were started again: %v, %v", paths, err)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		script []string
		edit   func(*Config)
		want   string
	}{
		{"fails", shell("echo it broke >&2; exit 4"), func(*Config) {}, `"it broke"; the full output is in`},
		{"writes nothing", shell("exit 0"), func(*Config) {}, "contains 0 files"},
		{"is not there", []string{"no-such-program-x"}, func(*Config) {}, "install it"},
		{
			"takes too long",
			shell("sleep 60"),
			func(c *Config) { c.Timeout, c.StopTimeout = 50*time.Millisecond, 50*time.Millisecond },
			"did not end within 50ms",
		},
		{"no configuration", shell("exit 0", "{config}"), func(*Config) {}, "set nat_config"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := schema.New[Config]()
			cfg.Command = c.script
			c.edit(&cfg)
			start := time.Now()
			_, err := collect(t.Context(), cfg, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if time.Since(start) > 20*time.Second {
				t.Errorf("%s took %s", c.name, time.Since(start))
			}
		})
	}
}

// TestInterrupted: the whole process group ends, and the run is repeated the next time.
func TestInterrupted(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.StopTimeout = 200 * time.Millisecond
	dir := t.TempDir()
	pidFile := filepath.Join(t.TempDir(), "pid")
	cfg.Command = shell(`sleep 60 & echo $! > "$1"; wait`, pidFile)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			if b, err := os.ReadFile(pidFile); err == nil && len(b) > 0 {
				cancel()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if _, err := collect(ctx, cfg, dir); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; lives(strings.TrimSpace(string(b))); n++ {
		if n == 100 {
			t.Fatal("a child of the program is still running")
		}
		time.Sleep(10 * time.Millisecond)
	}
	cfg.Command = shell(program, "{output_dir}", "{run}")
	if _, err := collect(t.Context(), cfg, dir); err != nil {
		t.Error(err)
	}
}

// lives reports whether a process exists and is not a zombie, which it remains if nothing reaps orphans.
func lives(pid string) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(out)), "Z")
}

// TestOrphans: anything that a killed nat-go left running is stopped before the program is started again in the same
// folder, even if it has left its session.
func TestOrphans(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("SKIPPED: no /proc")
	}
	if os.Getenv("NATGO_TEST_COLLECT") != "" {
		cfg := schema.New[Config]()
		cfg.Command = shell(`setsid sleep 600 & echo $! > "$1"; wait`, os.Getenv("NATGO_TEST_COLLECT"))
		_, _ = collect(t.Context(), cfg, os.Getenv("NATGO_TEST_DIR"))
		return
	}
	dir, pidFile := t.TempDir(), filepath.Join(t.TempDir(), "pid")
	other := exec.Command(os.Args[0], "-test.run=^TestOrphans$")
	other.Env = append(os.Environ(), "NATGO_TEST_COLLECT="+pidFile, "NATGO_TEST_DIR="+dir)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	var pid string
	for end := time.Now().Add(20 * time.Second); pid == ""; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(pidFile); err == nil {
			pid = strings.TrimSpace(string(b))
		}
		if time.Now().After(end) {
			t.Fatal("the program does not start")
		}
	}
	_ = other.Process.Kill()
	_ = other.Wait()
	if !lives(pid) {
		t.Fatal("nothing was tested: the orphan has ended already")
	}
	cfg := schema.New[Config]()
	cfg.StopTimeout = time.Second
	cfg.Command = shell(program, "{output_dir}", "{run}")
	if _, err := collect(t.Context(), cfg, dir); err != nil {
		t.Fatal(err)
	}
	if lives(pid) {
		t.Error("the program of the killed nat-go is still running beside the new one")
	}
}

// TestSecretsOfAFailedRun: nat's leftover copies of the filled-in configuration are removed even when it fails.
func TestSecretsOfAFailedRun(t *testing.T) {
	cfg := schema.New[Config]()
	cfg.Command = shell(`echo secret > "$1/config_effective.yml"; exit 3`, "{output_dir}")
	dir := t.TempDir()
	if _, err := collect(t.Context(), cfg, dir); err == nil {
		t.Fatal("it did not fail")
	}
	if _, err := os.Stat(filepath.Join(dir, "run0", "output", "config_effective.yml")); !errors.Is(err,
		os.ErrNotExist) {
		t.Error("NAT's own copy of the configuration is left")
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("nat.yml", natYAML)
	path := write("ours.yml", `
base: nat.yml
sources: {s: {_type: command}}
collator: {tokenizer: x}
dataset: {formats: [trl]}
trajectory_builders: {b: {_type: sdpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters: {a: {_type: exec_trainer_adapter}}
finetuning: {enabled: true}
eval: {general: {max_concurrency: 2}}
`)
	text, err := writeCopy(t.Context(), path, "/out", []string{"TTC_END"})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["workflow"] == nil {
		t.Errorf("sections left:\n%s", text)
	}
	for _, want := range []string{
		"dir: /out", "cleanup: false", "max_concurrency: 2", "${SECRET_KEY}", "file://" + filepath.Join(dir, "p.txt"),
		"n: 007",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the copy lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "job_management") {
		t.Error("job_management is left: the output would be in a folder of its own")
	}
}

func TestCopyRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{strings.Replace(natYAML, "workflow_output_step_filter: [TTC_END], ", "", 1), "Set eval.general.output.workflow_output_step_filter: [TTC_END]"},
		{strings.Replace(natYAML, "[TTC_END]", "[LLM_END]", 1), "would omit TTC_END"},
		{strings.Replace(natYAML, "[TTC_END]", "TTC_END", 1), "to be a list"},
		{strings.Replace(natYAML, "{e: {_type: x}}", "{}", 1), "without an evaluator"},
		{strings.Replace(natYAML, "file_path: q.json", "structure: {disable: true}", 1), "structure.disable"},
		{"base: c.yml", "inherits from itself"},
		{"[]", "not a YAML mapping"},
		{"a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]", "too many values after expanding aliases"},
		{"a: [", ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := writeCopy(t.Context(), file(t, "c.yml", c.text), "/out", []string{"TTC_END"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.want, err)
			}
		})
	}
	all := file(t, "c.yml", strings.Replace(natYAML, "[TTC_END]", "[]", 1))
	if _, err := writeCopy(t.Context(), all, "/out", []string{"TTC_END"}); err != nil {
		t.Errorf("an empty filter keeps all: %v", err)
	}
}
