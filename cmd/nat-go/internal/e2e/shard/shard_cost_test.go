package shard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"
)

// TestShardCost makes many records on one machine and in two shards, compares the run folders, and logs what each step
// took. NATGO_SHARD_RECORDS sets roughly how many records there are.
func TestShardCost(t *testing.T) {
	b := newCostBed(t, int(fromEnvironment(t, "NATGO_SHARD_RECORDS", 5_000)), 0)
	b.measured(t, "finetune run", b.Command(nil, "finetune", "run", "--config-file", "dpo.yml", "--run-id", "r",
		"--output-dir", "whole"))
	want := b.Content(t, "whole")
	if err := os.RemoveAll(filepath.Join(b.Dir, "whole")); err != nil {
		t.Fatal(err)
	}
	b.inTwoShards(t)
	b.Same(t, want, "out")
}

// TestShardMemory makes a run of a large input in two shards, each of which may take as much memory as a run of one
// machine. NATGO_SHARD_BYTES sets roughly how large the input is; five times as much room is needed on the disk.
func TestShardMemory(t *testing.T) {
	const line = 500
	bytes := fromEnvironment(t, "NATGO_SHARD_BYTES", 8_000_000)
	questions := max(1, int(bytes/(2*line)))
	b := newCostBed(t, questions, line)
	b.inTwoShards(t)
	var made struct {
		Counts struct{ Examples, Records int }
	}
	text, err := os.ReadFile(filepath.Join(b.Dir, "out", "r", "manifest.json"))
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil || made.Counts.Examples != questions || made.Counts.Records == 0 {
		t.Errorf("%+v of %d questions (%v)", made.Counts, questions, err)
	}
}

// fromEnvironment returns the number that a variable is set to.
func fromEnvironment(t *testing.T, variable string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// newCostBed has answers to n questions, in lines of at least that many bytes.
func newCostBed(t *testing.T, n, line int) *bed {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("measures memory as Linux reports it")
	}
	b := &bed{e2e.NewFolder(t)}
	writePairs(t, filepath.Join(b.Dir, "pairs.jsonl"), n, line)
	b.Write(t, "dpo.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder}}
sources: {runs: {_type: candidates, path: pairs.jsonl}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	return b
}

// inTwoShards measures the steps of a run in two shards.
func (b *bed) inTwoShards(t *testing.T) {
	t.Helper()
	b.measured(t, "shard plan", b.Planned("out", "dpo.yml", "--shards", "2"))
	for i := range 2 {
		b.measured(t, fmt.Sprint("shard run ", i), b.Shard("out", "build", i))
	}
	b.measured(t, "merge, dividing", b.Command(nil, "shard", "merge", "--leave-writing",
		filepath.Join("out", "r.shards")))
	for i := range 2 {
		b.measured(t, fmt.Sprint("shard run write ", i), b.Shard("out", "write", i))
	}
	b.measured(t, "merge", b.Merged("out"))
}

// measured runs a command and logs what it took. A shard or a merge may take as much memory as a run of one machine; a
// reader of all ids needs more.
func (b *bed) measured(t *testing.T, name string, cmd *exec.Cmd) {
	t.Helper()
	const most = 512 << 20 // bytes
	began := time.Now()
	b.Must(t, cmd)
	of := cmd.ProcessState
	memory := of.SysUsage().(*syscall.Rusage).Maxrss << 10
	t.Logf("%-20s %6.1f s, %6.1f s of processor time, %3d MiB", name, time.Since(began).Seconds(),
		(of.UserTime() + of.SystemTime()).Seconds(), memory>>20)
	var self syscall.Rusage // a child starts with our own memory, which counts as its own
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		t.Fatal(err)
	}
	if memory > max(most, self.Maxrss<<10) && name != "finetune run" && name != "shard plan" {
		t.Errorf("%s took %d MiB of memory, and may take %d", name, memory>>20, most>>20)
	}
}

// writePairs writes two scored answers to each of n questions, in lines of at least that many bytes.
func writePairs(t *testing.T, path string, n, line int) {
	t.Helper()
	more := strings.Repeat("; and so on", line/11)
	more = more[:max(0, line-90)]
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	for i := range n {
		for k := range 2 {
			fmt.Fprintf(out, `{"id":"e%d","turn_id":"t","prompt":"question %[1]d","output":"answer %[2]d of %[1]d%[4]s","score":0.%[3]d}`+"\n",
				i, k, (i+5*k)%10, more)
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
