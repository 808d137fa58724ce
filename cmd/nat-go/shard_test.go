package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// These tests divide runs into shards, disturb those, and compare what the merge makes with the run of one process: the
// same bytes.

// newShardBed has inputs that are hard to cut: ids that repeat across any cut, lines without an id, lines that are no
// entries, an array and a compressed file among files of lines.
func newShardBed(t *testing.T, examples int) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
	b := &bed{
		dir: t.TempDir(),
		exe: program(t),
		env: append(os.Environ(), "NO_COLOR=1", commitBytesVariable+"=65536"),
	}
	r := rand.New(rand.NewPCG(23, uint64(examples)))
	b.write(t, "in/a.jsonl", scored(r, examples))
	b.write(t, "in/b.jsonl", "\xEF\xBB\xBF"+scored(r, examples/5))
	b.write(
		t,
		"in/c.json",
		"["+strings.ReplaceAll(
			strings.TrimSpace(strings.ReplaceAll(scored(r, examples/5), "17\n", "")),
			"\n",
			",",
		)+"]",
	)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(scored(r, examples/5)))
	_ = w.Close()
	b.write(t, "in/d.jsonl.gz", packed.String())
	b.write(t, "in/e.jsonl", scored(r, examples/5))
	b.write(t, "dpo.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder}}
sources: {runs: {_type: candidates, path: [in/a.jsonl, in/b.jsonl, in/c.json, in/d.jsonl.gz, in/e.jsonl]}}
dataset: {formats: [customizer, trl, kto, nemo_rl]}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	return b
}

// scored are scored answers as lines.
func scored(r *rand.Rand, examples int) string {
	var text strings.Builder
	for e := range examples {
		line := map[string]any{}
		if e%7 != 0 {
			line["id"] = fmt.Sprint("e", r.IntN(examples))
		}
		for turn := range 1 + r.IntN(3) {
			for range 1 + r.IntN(5) {
				line["turn_id"], line["prompt"] = fmt.Sprint(
					"t",
					turn,
				), fmt.Sprintf(
					"prompt %d of %d",
					turn,
					r.IntN(1+examples/2),
				)
				line["output"] = strings.Repeat("so ", r.IntN(20)) + fmt.Sprint("answer ", r.IntN(6))
				line["score"] = float64(r.IntN(5)) / 4
				if r.IntN(50) == 0 {
					line["score"] = "none"
				}
				one, err := json.Marshal(line)
				if err != nil {
					panic(err)
				}
				fmt.Fprintf(&text, "%s\n", one)
			}
		}
		if r.IntN(9) == 0 {
			text.WriteString("17\n")
		}
	}
	return text.String()
}

func (b *bed) planned(out, config string, how ...string) *exec.Cmd {
	return b.command(
		nil,
		append([]string{"shard", "plan", "--config-file", config, "--run-id", "r", "--output-dir", out}, how...)...)
}

func (b *bed) shard(out string, index int) *exec.Cmd {
	return b.command(nil, "shard", "run", filepath.Join(out, "r.shards"), "--index", strconv.Itoa(index))
}

func (b *bed) merged(out string) *exec.Cmd {
	return b.command(nil, "shard", "merge", filepath.Join(out, "r.shards"))
}

// shardsOf is how many shards the plan has.
func (b *bed) shardsOf(t *testing.T, out string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, out, "r.shards", "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plan struct{ Shards []json.RawMessage }
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	return len(plan.Shards)
}

// disturb starts a command and ends it in some way before it is done, or starts it twice. It says whether it was
// disturbed.
func (b *bed) disturb(t *testing.T, r *rand.Rand, cmd func() *exec.Cmd, took time.Duration) string {
	t.Helper()
	first := cmd()
	kind := r.IntN(4)
	if kind == 0 {
		return ""
	}
	start(t, first)
	switch time.Sleep(time.Duration(r.Float64() * float64(took))); kind {
	case 1:
		_ = first.Process.Kill()
	case 2:
		_ = first.Process.Signal(syscall.SIGTERM)
	case 3: // once more, beside it
		if res := finish(t, cmd()); res.code != 0 && res.code != 3 {
			t.Errorf("beside another process: exit %d: %s", res.code, res.stderr)
		}
	}
	_ = first.Wait()
	switch code := first.ProcessState.ExitCode(); {
	case kind == 1 && code == -1:
		return "killed"
	case kind == 2 && code == 143:
		return "terminated"
	case kind == 3 && (code == 0 || code == 3):
		return "twice at once"
	case code != 0 && code != -1:
		t.Errorf("exit %d after fault %d", code, kind)
	}
	return ""
}

// inShards makes the run of a configuration in shards, with faults, in some order, and compares it.
func (b *bed) inShards(
	t *testing.T,
	r *rand.Rand,
	want map[string]string,
	out, config string,
	faults map[string]int,
	how ...string,
) {
	t.Helper()
	b.must(t, b.planned(out, config, how...))
	took := 200 * time.Millisecond
	for _, i := range r.Perm(b.shardsOf(t, out)) {
		cmd := func() *exec.Cmd { return b.shard(out, i) }
		for range 3 {
			faults[b.disturb(t, r, cmd, took)]++
		}
		began := time.Now()
		b.must(t, cmd())
		took = time.Since(began)
	}
	if r := b.must(t, b.command(nil, "shard", "status", "-q", filepath.Join(out, "r.shards"))); strings.TrimSpace(
		r.stdout,
	) != "" {
		t.Errorf("missing: %s", r.stdout)
	}
	faults[b.disturb(t, r, func() *exec.Cmd { return b.merged(out) }, 2*took)]++
	if res := finish(t, b.merged(out)); res.code != 0 && !strings.Contains(res.stderr, "merged already") {
		t.Fatalf("merge: exit %d: %s", res.code, res.stderr)
	}
	if res := finish(t, b.resume(out)); res.code != 0 { // hands over what a disturbed merge did not
		t.Fatalf("resume: exit %d: %s", res.code, res.stderr)
	}
	b.same(t, want, out)
}

// TestShards: whatever the number of shards, the order and the faults, the run is that of one process. NATGO_SHARD_SOAK
// is for how long further draws are made.
func TestShards(t *testing.T) {
	b := newShardBed(t, 300)
	seed := uint64(7)
	last, _ := time.ParseDuration(os.Getenv("NATGO_SHARD_SOAK"))
	if last > 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("NATGO_SOAK_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("NATGO_SOAK_SEED=%d repeats this", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	faults, draws := map[string]int{}, 0
	b.must(t, b.command(nil, "run", "--config-file", "dpo.yml", "--run-id", "r", "--output-dir", "whole"))
	want := b.content(t, "whole")
	for until := time.Now().Add(last); !t.Failed(); {
		ways := [][]string{{"--shards", "1"}, {"--shards", "2"}, {"--shards", "7"}}
		if last > 0 {
			ways = append(
				ways,
				[]string{"--shards", "64"},
				[]string{"--shard-bytes", strconv.Itoa(1000 + r.IntN(40_000))},
			)
		}
		for _, how := range ways {
			out := fmt.Sprint("many", draws)
			b.inShards(t, r, want, out, "dpo.yml", faults, how...)
			if err := os.RemoveAll(filepath.Join(b.dir, out)); err != nil {
				t.Fatal(err)
			}
			draws++
		}
		if time.Now().After(until) {
			break
		}
	}
	t.Logf("%d plans, faults: %v", draws, faults)
	if faults["killed"] == 0 || faults["terminated"] == 0 {
		t.Error("nothing was tested: no shard was disturbed")
	}
}

// TestShardsRefuse: whatever decides the data set and isn't as it was when the plan was made is named, with the exit
// code that tells a scheduler not to try again.
func TestShardsRefuse(t *testing.T) {
	b := newShardBed(t, 10)
	b.write(t, "var.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder, min_score_diff: ${MARGIN:-0.1}}}
sources: {runs: {_type: candidates, path: in/a.jsonl}}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	b.must(t, b.planned("out", "var.yml", "--shards", "3"))
	b.refused(t, b.planned("out", "var.yml", "--shards", "3"), 2, "there is a plan in out/r.shards already")
	b.refused(t, b.planned("other", "var.yml"), 2, "how many shards?")
	b.refused(t, b.planned("other", "var.yml", "--shards", "2", "--compat", "nat"), 2, "nothing to divide")
	at := func(env []string, args ...string) *exec.Cmd {
		return b.command(env, append([]string{"shard", "run", "out/r.shards"}, args...)...)
	}
	b.refused(t, b.merged("out"), 1, "3 of the 3 shards are not built yet: 0-2")
	b.refused(
		t,
		at([]string{"MARGIN=0.3"}, "--index", "0"),
		4,
		"trajectory_builders.b.min_score_diff changed since the plan was made",
	)
	b.refused(t, at(nil), 4, "which shard? Name it with --index")
	b.refused(t, at(nil, "--index", "3"), 4, "the plan has 3, from 0 to 2")
	b.refused(
		t,
		at([]string{"SLURM_ARRAY_TASK_ID=1", "JOB_COMPLETION_INDEX=2"}),
		4,
		"SLURM_ARRAY_TASK_ID says shard 1 and JOB_COMPLETION_INDEX says shard 2",
	)
	b.refused(t, at([]string{"NATGO_SHARD=1/4"}), 4, `NATGO_SHARD is "1/4", and the plan has 3 shards`)
	b.must(t, at([]string{"NATGO_SHARD=1/3", "SLURM_ARRAY_TASK_ID=1"}))
	if r := b.must(t, b.command(nil, "shard", "status", "out/r.shards")); !strings.Contains(
		r.stdout,
		"missing  0,2\n",
	) {
		t.Errorf("status says %q", r.stdout)
	}
	b.refused(t, b.command(nil, "shard", "run", "nowhere", "--index", "0"), 3, "there is no plan in nowhere")

	in := filepath.Join(b.dir, "in", "a.jsonl")
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "in/a.jsonl", strings.Replace(string(text), "answer 1", "answer 9", 1))
	b.refused(t, at(nil, "--index", "0"), 4, "the input in/a.jsonl changed since the plan was made")
	b.write(t, "in/a.jsonl", string(text)+"\n")
	b.refused(t, at(nil, "--index", "0"), 4, "in/a.jsonl had", "when the plan was made")
	b.write(t, "in/a.jsonl", string(text))
	if err := os.RemoveAll(filepath.Join(b.dir, "out/r.shards/shards/00000")); err != nil {
		t.Fatal(err)
	}
	b.must(t, at(nil, "--index", "0"))
	b.must(t, at(nil, "--index", "2"))

	log := "out/r.shards/shards/00002/records/records.log"
	whole, err := os.ReadFile(filepath.Join(b.dir, log))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	b.write(t, log, string(damaged))
	b.refused(t, b.merged("out"), 3, "records.log is damaged", "run it again")
	b.write(t, log, string(whole))

	plan := "out/r.shards/plan.json"
	was, err := os.ReadFile(filepath.Join(b.dir, plan))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, plan, strings.Replace(string(was), `"offset": `, `"offset": 1`, 1))
	b.refused(t, at(nil, "--index", "0"), 4, "plan.json was changed since it was written")
	b.write(t, plan, string(was))
	b.must(t, b.merged("out"))
	b.refused(t, b.merged("out"), 2, "merged already")
}
