package jobs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/customizer/customizertest"
)

// These tests run the program itself against a service on loopback: what a person does with a job, and what is left
// when the program is killed.

func TestJobFromBeginningToEnd(t *testing.T) {
	p := newProject(t, &customizertest.Service{
		Token:       e2e.Canary + "-hf",
		OutputModel: "team-a/m",
		LFSOver:     100,
	}, "deploy_on_completion: true")
	r := p.NatGo(t, 0, p.RunArgs("--json")...)
	var sum map[string]any
	if err := json.Unmarshal([]byte(strings.TrimSpace(r.Stdout)), &sum); err != nil || sum["status"] != "completed" {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	noSecrets(t, p.Project)
	oneJob(t, p)
	if b, err := os.ReadFile(filepath.Join(p.Dir, "out", "r1", "final_metrics.json")); err != nil || !bytes.Contains(b, []byte(`"status": "completed"`)) {
		t.Errorf("final_metrics.json: %s, %v", b, err)
	}
	r = p.NatGo(t, 0, "finetune", "list", "--output-dir", "out")
	if !strings.Contains(r.Stdout, "completed") {
		t.Error(r.Stdout)
	}
	p.NatGo(t, 0, "finetune", "wait", "r1", "--output-dir", "out")
	p.NatGo(t, 1, "finetune", "cancel", "out/r1")
	p.NatGo(t, 2, "finetune", "status", "no-such-run")
}

// TestJobOfTheRightKind: if a run made both preferences and demonstrations, the job gets those that its training type
// reads, under the names the service looks for.
func TestJobOfTheRightKind(t *testing.T) {
	for training, key := range map[string]string{"sft": `"messages"`, "dpo": `"rejected_response"`} {
		t.Run(training, func(t *testing.T) {
			s := &customizertest.Service{}
			p := newProject(t, s, fmt.Sprintf("hyperparameters: {training_type: %s}", training))
			config := filepath.Join(p.Dir, "finetune.yml")
			b, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(b), "{b: {_type: dpo_traj_builder}}", "{b: {_type: dpo_traj_builder}, d: {_type: sft_traj_builder}}", 1)
			text = strings.Replace(text, "trajectory_builder: b", "trajectory_builder: [b, d]", 1)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := p.NatGo(t, 0, p.RunArgs()...)
			for _, name := range []string{
				"training_file.jsonl", "validation_file.jsonl", "sft_training_file.jsonl", "sft_validation_file.jsonl",
			} {
				if _, err := os.Stat(filepath.Join(p.Dir, "out", "r1", "dataset", "customizer", name)); err != nil {
					t.Errorf("%s: %v\n%s", training, err, r.Stderr)
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
			p.NatGo(t, 0, "dataset", "verify", "out/r1")
			oneJob(t, p)
		})
	}
}

func TestJobLeftAndPickedUp(t *testing.T) {
	p := newProject(t, &customizertest.Service{States: []string{"created", "running", "running", "completed"}}, "")
	p.NatGo(t, 0, p.RunArgs("--detach")...)
	if err := os.Rename(filepath.Join(p.Dir, "out"), filepath.Join(p.Dir, "moved")); err != nil {
		t.Fatal(err)
	}
	r := p.NatGo(t, 0, "finetune", "status", "moved/r1", "--json")
	var report struct {
		Status string `json:"status"`
	}
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil || report.Status != "pending" {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	if r = p.NatGo(t, 0, "finetune", "wait", "moved/r1"); !strings.Contains(r.Stdout, "completed") {
		t.Error(r.Stdout)
	}
	oneJob(t, p)
}

func TestJobThatEndsBadly(t *testing.T) {
	for state, want := range map[string]string{"failed": "failed", "cancelled": "cancelled"} {
		t.Run(state, func(t *testing.T) {
			p := newProject(t, &customizertest.Service{States: []string{"running", state}}, "")
			if r := p.NatGo(t, 1, p.RunArgs()...); !strings.Contains(r.Stderr, want) {
				t.Errorf("%s: %s", state, r.Stderr)
			}
			noSecrets(t, p.Project)
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
	r := p.NatGo(t, 3, p.RunArgs()...)
	if _, err := os.Stat(
		filepath.Join(p.Dir, "out", "r1", "dataset", "customizer", "training_file.jsonl"),
	); err != nil {
		t.Errorf("the data set is not there: %v\n%s", err, r.Stderr)
	}
	down.Store(false)
	p.NatGo(t, 0, "finetune", "resume", "out/r1")
	oneJob(t, p)
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
	config := filepath.Join(p.Dir, "finetune.yml")
	b, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), "entity_host: http://", "entity_host: http://someone:"+e2e.Canary+"-url@", 1)
	text = strings.Replace(text, "datastore_host: http://", "datastore_host: http://"+e2e.Canary+"-name@", 1)
	text = strings.Replace(text, "entity_token: "+e2e.Canary+"-in-clear", "", 1)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.NatGo(t, 1, p.RunArgs("--json", "--metrics", "out/metrics.prom")...)
	noSecrets(t, p.Project)
	basic := base64.StdEncoding.EncodeToString([]byte("someone:" + e2e.Canary + "-url"))
	if strings.Contains(r.Stdout+r.Stderr, basic) {
		t.Errorf("the header of the address's credentials is shown:\n%s\n%s", r.Stdout, r.Stderr)
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
	cmd := p.Command(p.RunArgs()...)
	go func() {
		<-polled
		<-polled
		_ = cmd.Process.Signal(os.Interrupt)
	}()
	if r := e2e.Finish(t, cmd); r.Code != 130 || !strings.Contains(r.Stderr, "finetune wait") {
		t.Errorf("exit %d: %s", r.Code, r.Stderr)
	}
	oneJob(t, p)
	if r := p.NatGo(t, 0, "finetune", "cancel", "out/r1"); !strings.Contains(r.Stdout, "canceled") {
		t.Error(r.Stdout)
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
			cmd := p.Command(p.RunArgs()...)
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
			if r := e2e.Finish(t, cmd); r.Code != -1 {
				t.Fatalf("the program was not killed: exit %d\n%s", r.Code, r.Stderr)
			}
			r := p.NatGo(t, 0, "finetune", "resume", "out/r1")
			oneJob(t, p)
			noSecrets(t, p.Project)
			if s.Count("GET /v1/deployment/model-deployments/team-a/"+deployment(t, p)) == 0 {
				t.Errorf("the deployment was not followed:\n%s", r.Stderr)
			}
		})
	}
}

func deployment(t *testing.T, p *project) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(p.Dir, "out", "r1", "job.json"))
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

// noSecrets searches everything that was written, apart from the configuration itself.
func noSecrets(t *testing.T, p *e2e.Project) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(p.Dir, "out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(e2e.Canary)) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// oneJob checks that a single job was created.
func oneJob(t *testing.T, p *project) {
	t.Helper()
	if n := p.service.JobCount(); n != 1 {
		t.Errorf("%d jobs were made", n)
	}
}
