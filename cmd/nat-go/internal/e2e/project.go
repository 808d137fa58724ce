package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Project is a folder for runs that submit jobs.
type Project struct {
	Dir, Exe, Input string
}

// NewProject returns a project without a configuration.
func NewProject(t *testing.T) *Project {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	input, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", "examples", "demo", "workflow_output.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &Project{Dir: t.TempDir(), Input: input, Exe: Program(t)}
}

// Command returns a command that runs the program in the project's folder.
func (p *Project) Command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.Exe, args...)
	cmd.Dir = p.Dir
	// A stored configuration refers to a variable, which the file's header names, in place of a plaintext secret.
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	for _, granted := range [][2]string{
		{"TEST_HF_TOKEN", "-hf"}, {"TEST_WANDB", "-wandb"}, {"NATGO_TRAINER_ADAPTERS_A_ENTITY_TOKEN", "-in-clear"},
	} {
		cmd.Env = append(cmd.Env, granted[0]+"="+Canary+granted[1])
	}
	return cmd
}

// NatGo runs a command that must exit with the wanted code.
func (p *Project) NatGo(t *testing.T, want int, args ...string) Result {
	t.Helper()
	r := Finish(t, p.Command(args...))
	if r.Code != want {
		t.Fatalf("nat-go %s: exit %d, want %d\n%s\n%s", strings.Join(args, " "), r.Code, want, r.Stdout, r.Stderr)
	}
	return r
}

// RunArgs returns the arguments of a run.
func (p *Project) RunArgs(more ...string) []string {
	return append([]string{
		"finetune", "run", "--config-file", "finetune.yml", "--from", p.Input, "--run-id", "r1",
	}, more...)
}

// Place is where a test's job runs: either a service on the loopback interface or a local program.
type Place struct {
	*Project
	Release   func()                     // lets the job finish
	Cancelled func(t *testing.T) bool    // whether the job was asked to stop
	Jobs      func(t *testing.T) (n int) // number of jobs that were created
}

// NewLocal returns a place whose trainer records that it was started, and runs until it is released.
func NewLocal(t *testing.T) *Place {
	t.Helper()
	p := NewProject(t)
	write(t, p.Dir, "finetune.yml", fmt.Sprintf(config(t, "local.yml"), p.Dir))
	release := func() { write(t, p.Dir, "release", "") }
	t.Cleanup(release)
	return &Place{
		Project: p, Release: release,
		Cancelled: func(t *testing.T) bool {
			return strings.Contains(p.NatGo(t, 0, "finetune", "status", "out/r1").Stdout, "canceled")
		},
		Jobs: func(t *testing.T) int {
			b, err := os.ReadFile(filepath.Join(p.Dir, "starts"))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			return strings.Count(string(b), "started")
		},
	}
}

// Submitted waits until the run folder shows that a job exists.
func (p *Place) Submitted(t *testing.T) {
	t.Helper()
	p.When(t, func() bool { return p.Journal().Phase == "training" })
}

// When waits until is() returns true. It has no time limit other than go test's.
func (p *Place) When(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		time.Sleep(time.Millisecond)
	}
}

// Journal is a run folder's record of its job.
type Journal struct {
	Phase string          `json:"phase"`
	Job   json.RawMessage `json:"job"`
}

// Journal reads the run folder's record of its job. It returns an empty record if the folder doesn't contain one.
func (p *Place) Journal() (j Journal) {
	if b, err := os.ReadFile(filepath.Join(p.Dir, "out", "r1", "job.json")); err == nil {
		_ = json.Unmarshal(b, &j)
	}
	return j
}
