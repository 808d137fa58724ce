package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// These tests run the program with sources that make agent runs: against a small server that behaves like `nat serve`,
// and, where NAT is installed, against NAT itself.

const liveConfig = `
sources: {s: %s}
trajectory_builders: {b: {_type: dpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: [b], trainer: t, output_dir: out}
`

// live is a folder with a configuration that generates its own input.
func live(t *testing.T, sourceYAML string, files map[string]string) *e2e.Project {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	p := &e2e.Project{Dir: t.TempDir(), Exe: e2e.Program(t)}
	files["finetune.yml"] = fmt.Sprintf(liveConfig, sourceYAML)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

const twoQuestions = `[{"id": "a", "question": "q1"}, {"id": "b", "question": "q2"}]`

func examples(t *testing.T, r e2e.Result) (n int) {
	t.Helper()
	var sum struct {
		Counts struct {
			Examples int `json:"examples"`
			Kept     int `json:"kept"`
		} `json:"counts"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &sum); err != nil || sum.Counts.Kept == 0 {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	return sum.Counts.Examples
}

func TestEndpointSource(t *testing.T) {
	var asked atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/generate/full" {
			w.WriteHeader(404)
			return
		}
		if asked.Add(1) == 2 { // the second question gets no answer the first time
			w.WriteHeader(400)
			return
		}
		e2e.Workflow(w, r)
	}))
	t.Cleanup(h.Close)
	p := live(t, fmt.Sprintf("{_type: endpoint, endpoint: %q, dataset: q.json, max_concurrency: 1, token: %q}", h.URL+"/generate", e2e.Canary), map[string]string{
		"q.json": twoQuestions, "flags.yml": strings.Replace(fmt.Sprintf(liveConfig, ""), "sources: {s: }", "", 1),
	})
	r := p.NatGo(t, 3, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r1")
	if !strings.Contains(r.Stderr, "finetune resume out/r1") {
		t.Error(r.Stderr)
	}
	cmd := p.Command("finetune", "resume", "out/r1", "--json")
	cmd.Env = append(cmd.Env, "NATGO_SOURCES_S_TOKEN="+e2e.Canary)
	r = e2e.Finish(t, cmd)
	if r.Code != 0 || examples(t, r) != 2 || asked.Load() != 3 {
		t.Errorf("exit %d, asked %d times\n%s\n%s", r.Code, asked.Load(), r.Stdout, r.Stderr)
	}
	noSecrets(t, p)
	r = p.NatGo(t, 0, "finetune", "run", "--config-file", "flags.yml", "--endpoint", h.URL, "--dataset", "q.json",
		"--run-id", "r2", "--json")
	if examples(t, r) != 2 {
		t.Error(r.Stdout)
	}
	r = p.NatGo(t, 2, "finetune", "run", "--config-file", "flags.yml", "--endpoint", h.URL, "--from", "x")
	if !strings.Contains(r.Stderr, "use one of the two") {
		t.Error(r.Stderr)
	}
}

func TestCommandSource(t *testing.T) {
	demo, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := live(t, fmt.Sprintf(`{_type: command, runs: 2, command: [/bin/sh, -c, 'cp "$1" "$2"', sh, %q, "{output_dir}"]}`, demo), map[string]string{})
	r := p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r1", "--json")
	if n := examples(t, r); n != 80 {
		t.Errorf("%d examples", n)
	}
	// What `nat eval` would drop is reported before anything is started.
	p = live(t, `{_type: command, nat_config: nat.yml}`, map[string]string{"nat.yml": "workflow: {_type: w}\neval: {evaluators: {e: {_type: x}}}\n"})
	r = p.NatGo(t, 3, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r1")
	if !strings.Contains(r.Stderr, "workflow_output_step_filter: [TTC_END]") {
		t.Error(r.Stderr)
	}
}

// TestRealNAT runs `nat eval` and `nat serve` of the released NAT on the demo's workflow, if NATGO_REQUIRE names nat:
// it takes a minute to install them from PyPI.
func TestRealNAT(t *testing.T) {
	bin := realNAT(t)
	nat := filepath.Join(bin, "nat")
	config, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "nat.yml"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"nat.yml": string(config), "questions.json": twoQuestions}
	p := live(t, fmt.Sprintf("{_type: command, nat_config: nat.yml, command: [%q, --log-level, warning, eval, --config_file, '{config}']}", nat), files)
	if n := examples(t,
		p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r1", "--json")); n != 2 {
		t.Errorf("nat eval: %d examples", n)
	}
	url := natServe(t, nat, p.Dir)
	p = live(t, fmt.Sprintf("{_type: endpoint, endpoint: %q, dataset: questions.json}", url), files)
	if n := examples(t,
		p.NatGo(t, 0, "finetune", "run", "--config-file", "finetune.yml", "--run-id", "r1", "--json")); n != 2 {
		t.Errorf("nat serve: %d examples", n)
	}
}

func natServe(t *testing.T, nat, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	cmd := exec.Command(nat, "--log-level", "warning", "serve", "--config_file", "nat.yml", "--host", "127.0.0.1",
		"--port", port)
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for range 300 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return "http://127.0.0.1:" + port
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatal("nat serve did not start")
	return ""
}

// realNAT returns the bin folder of a virtual environment with NAT in it, kept in the user's cache folder.
func realNAT(t *testing.T) string {
	t.Helper()
	if !slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "nat") {
		t.Skip("SKIPPED: NATGO_REQUIRE=nat installs NAT from PyPI and runs it")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "nat-go", "nat-1.9.0")
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return filepath.Join(dir, "bin")
	}
	workflow, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow"))
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "workflow") // pip builds in place
	if err := os.CopyFS(copied, os.DirFS(workflow)); err != nil {
		t.Fatal(err)
	}
	pip := filepath.Join(dir, "bin", "pip")
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	for _, argv := range [][]string{
		{"python3", "-m", "venv", dir},
		{
			pip,
			"install",
			"-q",
			"nvidia-nat-core==1.9.0",
			"nvidia-nat-eval[full]==1.9.0",
			"langchain-core",
			"sqlalchemy[asyncio]",
			"aiosqlite",
		},
		{pip, "install", "-q", "--no-deps", copied},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %.1000s", strings.Join(argv, " "), err, out)
		}
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bin")
}

// TestLocalTrainer: a program that trains is started, watched and waited for; if left, it keeps running and is found
// again.
func TestLocalTrainer(t *testing.T) {
	demo, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := live(t, "{_type: workflow_output, path: "+demo+"}", map[string]string{})
	yaml, err := os.ReadFile(filepath.Join(p.Dir, "finetune.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(yaml), "trainer: t,", "trainer: t, trainer_adapter: x,", 1) + `
trainer_adapters:
  x:
    _type: exec_trainer_adapter
    poll_interval: 20ms
    command: [/bin/sh, -c, 'wc -l < "$1"; for i in 1 2 3; do echo "step=$i total_steps=3 loss=0.5"; sleep 0.1; done; exit $2', sh, "{train_file}", "0"]
`
	for name, text := range map[string]string{"good.yml": text, "bad.yml": strings.Replace(text, `"0"]`, `"5"]`, 1)} {
		if err := os.WriteFile(filepath.Join(p.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r := p.NatGo(t, 0, "finetune", "run", "--config-file", "good.yml", "--run-id", "r1"); !strings.Contains(r.Stderr,
		"step=3 total_steps=3") {
		t.Errorf("the trainer's output is not shown: %s", r.Stderr)
	}
	if r := p.NatGo(t, 1, "finetune", "run", "--config-file", "bad.yml", "--run-id", "r2"); !strings.Contains(r.Stderr,
		"exit status 5") {
		t.Error(r.Stderr)
	}
	p.NatGo(t, 0, "finetune", "run", "--config-file", "good.yml", "--run-id", "r3", "--detach")
	if r := p.NatGo(t, 0, "finetune", "wait", "out/r3"); !strings.Contains(r.Stdout, "completed") {
		t.Error(r.Stdout)
	}
}
