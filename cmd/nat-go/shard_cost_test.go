package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestShardCost makes many records on one machine and in two shards, compares the run folders, and logs what each step
// took. NATGO_SHARD_RECORDS sets roughly how many records there are.
func TestShardCost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("measures memory as Linux reports it")
	}
	const most = 512 << 20 // bytes of memory, for what a shard or a merge does; a reader of all ids needs more
	records := 5_000
	if text := os.Getenv("NATGO_SHARD_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	b := &bed{dir: t.TempDir(), exe: program(t), env: append(os.Environ(), "NO_COLOR=1")}
	writePairs(t, filepath.Join(b.dir, "pairs.jsonl"), records)
	b.write(t, "dpo.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder}}
sources: {runs: {_type: candidates, path: pairs.jsonl}}
dataset: {formats: [trl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	measured := func(name string, cmd *exec.Cmd) {
		began := time.Now()
		b.must(t, cmd)
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
	measured("finetune run", b.command(nil, "finetune", "run", "--config-file", "dpo.yml", "--run-id", "r",
		"--output-dir", "whole"))
	want := b.content(t, "whole")
	if err := os.RemoveAll(filepath.Join(b.dir, "whole")); err != nil {
		t.Fatal(err)
	}
	measured("shard plan", b.planned("out", "dpo.yml", "--shards", "2"))
	for i := range 2 {
		measured(fmt.Sprint("shard run ", i), b.shard("out", "build", i))
	}
	measured("merge, dividing", b.command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	for i := range 2 {
		measured(fmt.Sprint("shard run write ", i), b.shard("out", "write", i))
	}
	measured("merge", b.merged("out"))
	b.same(t, want, "out")
}

// writePairs writes two scored answers to each of n questions.
func writePairs(t *testing.T, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(f)
	for i := range n {
		for k := range 2 {
			fmt.Fprintf(out, `{"id":"e%d","turn_id":"t","prompt":"question %[1]d","output":"answer %d of %[1]d","score":0.%d}`+"\n",
				i, k, (i+5*k)%10)
		}
	}
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
