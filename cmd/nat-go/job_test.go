package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// These tests run the program itself against a service on loopback: what a person does with a job, and what is left
// when the program is killed.

const canary = "canary-7f3a"

// project is a folder with a configuration that submits to a service.
type project struct {
	dir, exe, input string
	service         *customizertest.Service
}

func newProject(t *testing.T, s *customizertest.Service, extra string) *project {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	customizertest.Start(t, s)
	input, err := filepath.Abs(filepath.Join("..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := &project{dir: t.TempDir(), input: input, service: s}
	p.exe = program(t)
	config := fmt.Sprintf(`
trajectory_builders: {b: {_type: dpo_traj_builder}}
trainers: {t: {_type: nemo_customizer_trainer}}
trainer_adapters:
  a:
    _type: nemo_customizer_trainer_adapter
    entity_host: %s
    datastore_host: %s
    hf_token: "${TEST_HF_TOKEN}"
    entity_token: %s-in-clear
    wandb_api_key: "${TEST_WANDB}"
    namespace: team-a
    customization_config: meta/x@v1+A100
    poll_interval_seconds: 0.02
    %s
finetuning: {enabled: true, trainer: t, trajectory_builder: b, trainer_adapter: a, output_dir: out}
`, s.URL, s.URL, canary, extra)
	if err := os.WriteFile(filepath.Join(p.dir, "finetune.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// program is this test's binary under the name that makes it nat-go; see TestMain.
func program(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "nat-go")
	if os.Link(self, exe) == nil {
		return exe
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(exe, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return exe
}

type result struct {
	code           int
	stdout, stderr string
}

func (p *project) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.exe, args...)
	cmd.Dir = p.dir
	// A configuration with a plaintext secret is stored with a reference in its place; the variable is named in the
	// file's header.
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "TEST_HF_TOKEN="+canary+"-hf", "TEST_WANDB="+canary+"-wandb",
		"NATGO_TRAINER_ADAPTERS_A_ENTITY_TOKEN="+canary+"-in-clear")
	return cmd
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if strings.Contains(r.stdout+r.stderr, canary) {
		t.Errorf("a secret is shown:\n%s\n%s", r.stdout, r.stderr)
	}
	return r
}

func (p *project) natgo(t *testing.T, want int, args ...string) result {
	t.Helper()
	r := finish(t, p.command(args...))
	if r.code != want {
		t.Fatalf("nat-go %s: exit %d, want %d\n%s\n%s", strings.Join(args, " "), r.code, want, r.stdout, r.stderr)
	}
	return r
}

func (p *project) runArgs(more ...string) []string {
	return append([]string{
		"finetune", "run", "--config-file", "finetune.yml", "--from", p.input, "--run-id", "r1",
	}, more...)
}

// noSecrets searches everything that was written, apart from the configuration itself.
func (p *project) noSecrets(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(p.dir, "out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(canary)) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func (p *project) oneJob(t *testing.T) {
	t.Helper()
	if n := p.service.JobCount(); n != 1 {
		t.Errorf("%d jobs were made", n)
	}
}

func TestJobFromBeginningToEnd(t *testing.T) {
	p := newProject(t, &customizertest.Service{
		Token:       canary + "-hf",
		OutputModel: "team-a/m",
		LFSOver:     100,
	}, "deploy_on_completion: true")
	r := p.natgo(t, 0, p.runArgs("--json")...)
	var sum map[string]any
	if err := json.Unmarshal([]byte(strings.TrimSpace(r.stdout)), &sum); err != nil || sum["status"] != "completed" {
		t.Errorf("%v: %s", err, r.stdout)
	}
	p.noSecrets(t)
	p.oneJob(t)
	if b, err := os.ReadFile(filepath.Join(p.dir, "out", "r1", "final_metrics.json")); err != nil || !bytes.Contains(b, []byte(`"status": "completed"`)) {
		t.Errorf("final_metrics.json: %s, %v", b, err)
	}
	r = p.natgo(t, 0, "finetune", "list", "--output-dir", "out")
	if !strings.Contains(r.stdout, "completed") {
		t.Error(r.stdout)
	}
	p.natgo(t, 0, "finetune", "wait", "r1", "--output-dir", "out")
	p.natgo(t, 1, "finetune", "cancel", "out/r1")
	p.natgo(t, 2, "finetune", "status", "no-such-run")
}

// TestJobOfTheRightKind: if a run made both preferences and demonstrations, the job gets those that its training type
// reads, under the names the service looks for.
func TestJobOfTheRightKind(t *testing.T) {
	for training, key := range map[string]string{"sft": `"messages"`, "dpo": `"rejected_response"`} {
		t.Run(training, func(t *testing.T) {
			s := &customizertest.Service{}
			p := newProject(t, s, fmt.Sprintf("hyperparameters: {training_type: %s}", training))
			config := filepath.Join(p.dir, "finetune.yml")
			b, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(b), "{b: {_type: dpo_traj_builder}}", "{b: {_type: dpo_traj_builder}, d: {_type: sft_traj_builder}}", 1)
			text = strings.Replace(text, "trajectory_builder: b", "trajectory_builder: [b, d]", 1)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := p.natgo(t, 0, p.runArgs()...)
			for _, name := range []string{
				"training_file.jsonl", "validation_file.jsonl", "sft_training_file.jsonl", "sft_validation_file.jsonl",
			} {
				if _, err := os.Stat(filepath.Join(p.dir, "out", "r1", "dataset", "customizer", name)); err != nil {
					t.Errorf("%s: %v\n%s", training, err, r.stderr)
				}
			}
			var repo string
			for _, job := range s.Jobs {
				repo = fmt.Sprint(job["dataset"])
			}
			if file := s.File(repo, "training/training_file.jsonl"); !bytes.Contains(file, []byte(key)) ||
				s.File(repo, "validation/validation_file.jsonl") == nil {
				t.Errorf("%s: the service got %.200q", training, file)
			}
			p.natgo(t, 0, "dataset", "verify", "out/r1")
			p.oneJob(t)
		})
	}
}

func TestJobLeftAndPickedUp(t *testing.T) {
	p := newProject(t, &customizertest.Service{States: []string{"created", "running", "running", "completed"}}, "")
	p.natgo(t, 0, p.runArgs("--detach")...)
	if err := os.Rename(filepath.Join(p.dir, "out"), filepath.Join(p.dir, "moved")); err != nil {
		t.Fatal(err)
	}
	r := p.natgo(t, 0, "finetune", "status", "moved/r1", "--json")
	var report struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Status != "pending" {
		t.Errorf("%v: %s", err, r.stdout)
	}
	if r = p.natgo(t, 0, "finetune", "wait", "moved/r1"); !strings.Contains(r.stdout, "completed") {
		t.Error(r.stdout)
	}
	p.oneJob(t)
}

func TestJobThatEndsBadly(t *testing.T) {
	for state, want := range map[string]string{"failed": "failed", "cancelled": "cancelled"} {
		t.Run(state, func(t *testing.T) {
			p := newProject(t, &customizertest.Service{States: []string{"running", state}}, "")
			if r := p.natgo(t, 1, p.runArgs()...); !strings.Contains(r.stderr, want) {
				t.Errorf("%s: %s", state, r.stderr)
			}
			p.noSecrets(t)
		})
	}
}

func TestServiceThatIsNotThere(t *testing.T) {
	p := newProject(t, &customizertest.Service{}, "")
	down := atomic.Bool{}
	down.Store(true)
	p.service.Fault = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return down.Load()
	}
	r := p.natgo(t, 3, p.runArgs()...)
	if _, err := os.Stat(
		filepath.Join(p.dir, "out", "r1", "dataset", "customizer", "training_file.jsonl"),
	); err != nil {
		t.Errorf("the data set is not there: %v\n%s", err, r.stderr)
	}
	down.Store(false)
	p.natgo(t, 0, "finetune", "resume", "out/r1")
	p.oneJob(t)
}

// TestSecretsAreNowhere: a service repeats everything it is sent - tokens, keys, the credentials in its own address, in
// whatever form - in its errors and in the states it reports, and none of it ends up in a file, an error, a log or the
// metrics.
func TestSecretsAreNowhere(t *testing.T) {
	s := &customizertest.Service{States: []string{"running", "failed"}}
	var told sync.Map
	s.Fault = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		for k, vs := range r.Header {
			if k == "Authorization" || k == "Wandb-Api-Key" {
				told.Store(strings.Join(vs, " "), true)
			}
		}
		if user, password, ok := r.BasicAuth(); ok {
			told.Store(user, true)
			told.Store(password, true)
		}
		var all []string
		told.Range(func(k, _ any) bool { all = append(all, k.(string)); return true })
		switch echo := strings.Join(all, " and "); {
		case r.URL.Path == "/v1/namespaces":
			w.WriteHeader(500)
			fmt.Fprintf(w, `{"detail": %q}`, echo)
		case strings.HasSuffix(r.URL.Path, "/status"):
			fmt.Fprintf(w, `{"status": "failed", "status_logs": [{"message": %q, "detail": %q}]}`, echo, echo)
		default:
			return false
		}
		return true
	}
	p := newProject(t, s, "")
	config := filepath.Join(p.dir, "finetune.yml")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), "entity_host: http://", "entity_host: http://someone:"+canary+"-url@", 1)
	text = strings.Replace(text, "datastore_host: http://", "datastore_host: http://"+canary+"-name@", 1)
	text = strings.Replace(text, "entity_token: "+canary+"-in-clear", "", 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.natgo(t, 1, p.runArgs("--json", "--metrics", "out/metrics.prom")...)
	p.noSecrets(t)
	basic := base64.StdEncoding.EncodeToString([]byte("someone:" + canary + "-url"))
	if strings.Contains(r.stdout+r.stderr, basic) {
		t.Errorf("the header of the address's credentials is shown:\n%s\n%s", r.stdout, r.stderr)
	}
	n := 0
	told.Range(func(any, any) bool { n++; return true })
	if n < 5 {
		t.Errorf("the service was sent only %d secrets", n)
	}
}

func TestInterruptLeavesTheJob(t *testing.T) {
	s := &customizertest.Service{States: []string{"running"}}
	p := newProject(t, s, "")
	polled := make(chan struct{}, 1000)
	s.Fault = func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasSuffix(r.URL.Path, "/status") {
			select {
			case polled <- struct{}{}:
			default:
			}
		}
		return false
	}
	cmd := p.command(p.runArgs()...)
	go func() {
		<-polled
		<-polled
		_ = cmd.Process.Signal(os.Interrupt)
	}()
	if r := finish(t, cmd); r.code != 130 || !strings.Contains(r.stderr, "finetune wait") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	p.oneJob(t)
	if r := p.natgo(t, 0, "finetune", "cancel", "out/r1"); !strings.Contains(r.stdout, "canceled") {
		t.Error(r.stdout)
	}
}

// TestKilledAtEveryState: kill -9 at each point of a submission; `finetune resume` ends with one job, never two, never
// none.
func TestKilledAtEveryState(t *testing.T) {
	for _, c := range []struct {
		name  string
		kill  func(r *http.Request) bool
		after bool // the service does as asked before the program dies
	}{
		{"before anything", func(r *http.Request) bool { return r.URL.Path == "/v1/namespaces" }, false},
		{"while uploading", func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/commit/") }, false},
		{"before the job is made", func(r *http.Request) bool { return r.URL.Path == "/v1/customization/jobs" }, false},
		{"after the job is made", func(r *http.Request) bool {
			return r.URL.Path == "/v1/customization/jobs" && r.Method == http.MethodPost
		}, true},
		{"polling", func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/status") }, false},
		{
			"before the deployment is made",
			func(r *http.Request) bool { return r.URL.Path == "/v1/deployment/model-deployments" },
			false,
		},
		{
			"after the deployment is made",
			func(r *http.Request) bool { return r.URL.Path == "/v1/deployment/model-deployments" },
			true,
		},
		{
			"deploying",
			func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/deployment/model-deployments/") },
			false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &customizertest.Service{OutputModel: "team-a/m"}
			p := newProject(t, s, "deploy_on_completion: true")
			cmd := p.command(p.runArgs()...)
			var killed, inner atomic.Bool
			s.Fault = func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
				if inner.Load() || !c.kill(r) || killed.Swap(true) {
					return false
				}
				if c.after {
					inner.Store(true)
					req, _ := http.NewRequest(r.Method, s.URL+r.URL.Path, bytes.NewReader(body))
					if resp, err := http.DefaultClient.Do(req); err == nil {
						resp.Body.Close()
					}
					inner.Store(false)
				}
				_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
				time.Sleep(50 * time.Millisecond)
				return true
			}
			if r := finish(t, cmd); r.code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", r.code, r.stderr)
			}
			r := p.natgo(t, 0, "finetune", "resume", "out/r1")
			p.oneJob(t)
			p.noSecrets(t)
			if s.Count("GET /v1/deployment/model-deployments/team-a/"+deployment(t, p)) == 0 {
				t.Errorf("the deployment was not followed:\n%s", r.stderr)
			}
		})
	}
}

func deployment(t *testing.T, p *project) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.dir, "out", "r1", "job.json"))
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Job struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"job"`
	}
	if err := json.Unmarshal(b, &j); err != nil {
		t.Fatal(err)
	}
	return j.Job.Metadata["deployment"]
}
