package shard

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// These tests run the scripts that `nat-go shard script` writes, as their engines would, and compare the result with a
// single-process run.

// engine is a place to try scripts in.
type engine struct {
	*bed
	out  string
	want map[string]string
}

// newEngine plans seven shards of a configuration, with faults, each of which ends the first attempt of a shard.
func newEngine(t *testing.T, config string, faults map[string]string) *engine {
	t.Helper()
	e := &engine{bed: newShardBed(t, 60), out: "out"}
	e.AddTasks(t, 60)
	e.Must(t, e.Command(nil, "run", "--config-file", config, "--run-id", "r", "--output-dir", "whole"))
	e.want = e.Content(t, "whole")
	e.Must(t, e.Planned(e.out, config, "--shards", "7"))
	for _, dir := range []string{"faults", "cluster"} {
		if err := os.Mkdir(filepath.Join(e.Dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for at, code := range faults {
		e.Write(t, "faults/"+at, code)
	}
	flaky := standIn(t, "flaky")
	e.Env = append(e.Env, "NATGO="+e.Exe, "FAULTS="+filepath.Join(e.Dir, "faults"),
		"CLUSTER="+filepath.Join(e.Dir, "cluster"),
		"IMAGE="+flaky, "MAX_ARRAY_SIZE=4", "PATH="+filepath.Dir(flaky)+":"+os.Getenv("PATH"))
	return e
}

// standIn returns the path of a program in testdata that replaces one of an engine's programs, or runs one.
func standIn(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "engines", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// script has `nat-go shard script` write for an engine.
func (e *engine) script(t *testing.T, engine string, flags ...string) {
	t.Helper()
	e.Must(t, e.Command(nil, append([]string{"shard", "script", engine, e.out + "/r.shards"}, flags...)...))
	files, err := filepath.Glob(filepath.Join(e.Dir, e.out, "r.shards", engine, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	shellcheck, _ := exec.LookPath("shellcheck")
	if shellcheck == "" && slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), "shellcheck") {
		t.Fatal("no shellcheck, and NATGO_REQUIRE names it")
	}
	for _, f := range files {
		if !strings.HasSuffix(f, ".sh") && !strings.HasSuffix(f, ".sbatch") {
			continue
		}
		e.Must(t, exec.Command("sh", "-n", f))
		if shellcheck == "" {
			t.Log("SKIPPED: no shellcheck")
		} else if r := e2e.Finish(t, exec.Command(shellcheck, f)); r.Code != 0 {
			t.Errorf("%s", r.Stdout)
		}
	}
}

// start starts the run on the engine.
func (e *engine) start(engine string) *exec.Cmd {
	cmd := exec.Command("sh", filepath.Join(e.out, "r.shards", engine, "submit.sh"))
	cmd.Dir, cmd.Env = e.Dir, e.Env
	return cmd
}

func (e *engine) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestScriptSlurm runs the batch scripts with a stand-in for Slurm. Exit code 3 and a time limit (143) lead to another
// attempt; exit code 4 ends the array, without a merge, and what is missing is submitted again.
func TestScriptSlurm(t *testing.T) {
	e := newEngine(t, "tasks.yml", map[string]string{
		"build-1": "3", "build-6": "143", "group-2": "4", "write-3": "4", "merge-": "3",
	})
	e.script(t, "slurm", "--program", standIn(t, "flaky"), "--max-array-size", "4", "--at-once", "3",
		"--sbatch", "partition=all")
	e.Must(t, e.start("slurm"))
	if _, err := os.Stat(filepath.Join(e.Dir, e.out, "r")); err == nil {
		t.Error("merged although a shard failed")
	}
	e.Must(t, e.start("slurm"))
	e.Must(t, e.start("slurm"))
	want := "build.sbatch 0-3%3 no dependency\ngroup.sbatch 0-3%3 100\ndivide.sbatch no array 200\n" +
		"write.sbatch 0-3%3 300\nmerge.sbatch no array 400\n" +
		"group.sbatch 1%3 no dependency\ndivide.sbatch no array 600\n" +
		"write.sbatch 0-3%3 700\nmerge.sbatch no array 800\n" +
		"divide.sbatch no array no dependency\nwrite.sbatch 1%3 1000\nmerge.sbatch no array 1100\n"
	if got := e.file(t, "cluster/submitted"); got != want {
		t.Errorf("submitted:\n%swant:\n%s", got, want)
	}
	if left, _ := filepath.Glob(filepath.Join(e.Dir, "faults", "*")); len(left) > 0 {
		t.Errorf("faults that didn't happen: %v", left)
	}
	e.Same(t, e.want, e.out)
}

// TestScriptKubernetes runs the Jobs with a stand-in for a cluster: one pod per index, with further attempts except
// after code 4.
func TestScriptKubernetes(t *testing.T) {
	e := newEngine(t, "dpo.yml", map[string]string{"build-1": "3", "build-5": "4", "write-4": "4", "merge-": "3"})
	e.script(t, "k8s", "--image", "nat-go:1", "--claim", "shared")
	for _, want := range []string{"r-build failed; its shards:\n5,\n", "r-write failed; its shards:\n4,\n"} {
		if r := e2e.Finish(t, e.start("k8s")); r.Code != 1 || !strings.Contains(r.Stderr, want) {
			t.Errorf("exit %d: %s", r.Code, r.Stderr)
		}
	}
	e.Must(t, e.start("k8s"))
	if left, _ := filepath.Glob(filepath.Join(e.Dir, "faults", "*")); len(left) > 0 {
		t.Errorf("faults that didn't happen: %v", left)
	}
	e.Same(t, e.want, e.out)
}

// isolated returns a command in a network namespace of its own; it skips the test if that isn't available, unless
// NATGO_REQUIRE names what is tested.
func isolated(t *testing.T, what string, command ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{"-r", "-n"}, command...)
	if os.Getuid() == 0 {
		args = args[1:]
	}
	probe := append(slices.Clone(args[:len(args)-len(command)]), "ip", "link", "set", "lo", "up")
	if out, err := exec.Command("unshare", probe...).CombinedOutput(); err != nil {
		lacking(t, what, "no network namespace: "+string(out))
	}
	return exec.Command("unshare", args...)
}

// lacking skips a test that is missing something, unless NATGO_REQUIRE names what is tested.
func lacking(t *testing.T, what, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("NATGO_REQUIRE"), ","), what) {
		t.Fatalf("%s, and NATGO_REQUIRE names %s", why, what)
	}
	t.Skipf("SKIPPED: %s", why)
}

// TestSlurm runs the batch scripts on a real Slurm with two nodes.
func TestSlurm(t *testing.T) {
	for _, program := range []string{"slurmctld", "slurmd", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			lacking(t, "slurm", "no "+program)
		}
	}
	e := newEngine(t, "tasks.yml", map[string]string{"build-1": "3"}) // a second attempt comes two minutes later
	e.script(t, "slurm", "--program", standIn(t, "flaky"), "--max-array-size", "4", "--sbatch", "partition=all",
		"--cpus", "1")
	cmd := isolated(t, "slurm", standIn(t, "slurm_cluster"), filepath.Join(e.Dir, "slurm"),
		"sh", filepath.Join(e.out, "r.shards/slurm/submit.sh"))
	cmd.Dir = e.Dir
	cmd.Env = slices.DeleteFunc(slices.Clone(e.Env), func(v string) bool { return strings.HasPrefix(v, "PATH=") })
	cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
	r := e.Must(t, cmd)
	t.Log(r.Stdout, r.Stderr)
	if left, _ := filepath.Glob(filepath.Join(e.Dir, "faults", "*")); len(left) > 0 {
		t.Errorf("faults that didn't happen: %v", left)
	}
	e.Same(t, e.want, e.out)
}

// TestRay runs the driver on a Ray cluster of three nodes, one of which is killed midway.
func TestRay(t *testing.T) {
	python := os.Getenv("NATGO_RAY_PYTHON")
	if python == "" {
		lacking(t, "ray", "NATGO_RAY_PYTHON names no Python with ray")
	}
	e := newEngine(t, "tasks.yml", map[string]string{"build-1": "3"})
	e.script(t, "ray", "--program", standIn(t, "flaky"), "--cpus", "1", "--memory", "256MiB")
	up := `ip link set lo up && exec "$@"`
	cmd := isolated(t, "ray", "sh", "-c", up, "sh", python, standIn(t, "ray_cluster.py"),
		filepath.Join(e.out, "r.shards/ray/run.py"), filepath.Join(e.out, "r.shards/build/00003/shard.json"))
	cmd.Dir, cmd.Env = e.Dir, append(e.Env, "RAY_USAGE_STATS_ENABLED=0")
	r := e.Must(t, cmd)
	t.Log(r.Stdout)
	if !strings.Contains(r.Stdout, "a node was killed") || !strings.Contains(r.Stdout, "merged") {
		t.Errorf("%s%s", r.Stdout, r.Stderr)
	}
	e.Same(t, e.want, e.out)
}
