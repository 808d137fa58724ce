package shard

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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/e2e"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// These tests divide runs into shards, disrupt those, and check that the merge produces the same bytes as the run of
// one process.

// disturb starts a command and ends it in some way before it is done, or starts it twice. It reports whether the
// command was disturbed.
func (b *bed) disturb(t *testing.T, r *rand.Rand, cmd func() *exec.Cmd, took time.Duration) string {
	t.Helper()
	first := cmd()
	kind := r.IntN(4)
	if kind == 0 {
		return ""
	}
	e2e.Start(t, first)
	switch time.Sleep(time.Duration(r.Float64() * float64(took))); kind {
	case 1:
		_ = first.Process.Kill()
	case 2:
		_ = first.Process.Signal(syscall.SIGTERM)
	case 3: // once more, alongside it
		if res := e2e.Finish(t, cmd()); res.Code != 0 && res.Code != 3 && !refusesTwo(res) {
			t.Errorf("beside another process: exit %d: %s", res.Code, res.Stderr)
		}
	}
	_ = first.Wait()
	switch code := first.ProcessState.ExitCode(); {
	case kind == 1 && code == -1:
		return "killed"
	case kind == 2 && code == 143:
		return "terminated"
	case kind == 3 && (code == 0 || code == 2 || code == 3): // 2: of two merges
		return "twice at once"
	case code != 0 && code != -1:
		t.Errorf("exit %d after fault %d", code, kind)
	}
	return ""
}

// refusesTwo reports whether a merge gave way to another one.
func refusesTwo(r e2e.Result) bool {
	return r.Code == 2 && (strings.Contains(r.Stderr, "already merged") || strings.Contains(r.Stderr, "is working on"))
}

// inShards makes the run of a configuration in shards, with faults, in some order, and compares the result.
func (b *bed) inShards(
	t *testing.T,
	r *rand.Rand,
	want map[string]string,
	out, config string,
	faults map[string]int,
	how ...string,
) {
	t.Helper()
	b.Must(t, b.Planned(out, config, how...))
	took := 200 * time.Millisecond
	n, stages := planOf(t, b, out)
	for _, stage := range stages {
		for _, i := range r.Perm(n) {
			cmd := func() *exec.Cmd { return b.Shard(out, stage, i) }
			for range 3 {
				faults[b.disturb(t, r, cmd, took)]++
			}
			began := time.Now()
			b.Must(t, cmd())
			took = time.Since(began)
		}
	}
	if r := b.Must(t, b.Command(nil, "shard", "status", "-q", filepath.Join(out, "r.shards"))); strings.TrimSpace(
		r.Stdout,
	) != "" {
		t.Errorf("missing: %s", r.Stdout)
	}
	if r.IntN(3) > 0 || strings.Contains(t.Name(), "Write") {
		b.writeInShards(t, r, out, n, took, faults)
	}
	b.holdWhatTheyName(t, out)
	faults[b.disturb(t, r, func() *exec.Cmd { return b.Merged(out) }, 2*took)]++
	if res := e2e.Finish(t, b.Merged(out)); res.Code != 0 && !strings.Contains(res.Stderr, "already merged") {
		t.Fatalf("merge: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := e2e.Finish(t, b.Resume(out)); res.Code != 0 { // submits what a disturbed merge did not
		t.Fatalf("resume: exit %d: %s", res.Code, res.Stderr)
	}
	b.Same(t, want, out)
}

// holdWhatTheyName checks the files of all shards against their manifests.
func (b *bed) holdWhatTheyName(t *testing.T, out string) {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(b.Dir, out, "r.shards", "*", "*", "shard.json"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(err, len(manifests))
	}
	for _, path := range manifests {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var done struct{ Files []runfolder.File }
		if err := json.Unmarshal(text, &done); err != nil {
			t.Fatal(err)
		}
		for _, f := range done.Files {
			if got, err := runfolder.Folder(filepath.Dir(path)).Sum(f.Path); err != nil || got != f {
				t.Errorf("%s names %+v, which is %+v (%v)", path, f, got, err)
			}
		}
	}
}

// writeInShards has the shards of a plan written, with faults, in some order.
func (b *bed) writeInShards(
	t *testing.T, r *rand.Rand, out string, n int, took time.Duration, faults map[string]int,
) {
	t.Helper()
	leave := func() *exec.Cmd {
		return b.Command(nil, "shard", "merge", "--leave-writing", filepath.Join(out, "r.shards"))
	}
	faults[b.disturb(t, r, leave, 2*took)]++
	for range 2 { // running it again says what comes next
		b.Must(t, leave())
	}
	for _, i := range r.Perm(n) {
		cmd := func() *exec.Cmd { return b.Shard(out, "write", i) }
		for range 2 {
			faults[b.disturb(t, r, cmd, took)]++
		}
		b.Must(t, cmd())
		faults["shares written"]++
	}
	if r := b.Must(t, b.Command(nil, "shard", "status", "-q", filepath.Join(out, "r.shards"))); strings.TrimSpace(
		r.Stdout) != "" {
		t.Errorf("not written: %s", r.Stdout)
	}
}

// TestShards checks that the result equals one process's result, regardless of the number of shards, their order and
// faults. NATGO_SHARD_SOAK is how long to keep drawing further cases.
func TestShards(t *testing.T) {
	b := newShardBed(t, 300)
	b.AddTasks(t, 300)
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
	configs := []string{"dpo.yml", "tasks.yml"}
	want := map[string]map[string]string{}
	for _, config := range configs {
		b.Must(t, b.Command(nil, "run", "--config-file", config, "--run-id", "r", "--output-dir", "whole-"+config))
		want[config] = b.Content(t, "whole-"+config)
	}
	for until := time.Now().Add(last); !t.Failed(); {
		ways := [][]string{{"--shards", "1"}, {"--shards", "2"}, {"--shards", "7"}, {"--shards", "4"}}
		if last > 0 {
			ways = append(
				ways,
				[]string{"--shards", "64"},
				[]string{"--shard-bytes", strconv.Itoa(1000 + r.IntN(40_000))},
			)
		}
		for _, how := range ways {
			out := fmt.Sprint("many", draws)
			config := configs[draws%len(configs)]
			b.inShards(t, r, want[config], out, config, faults, how...)
			if err := os.RemoveAll(filepath.Join(b.Dir, out)); err != nil {
				t.Fatal(err)
			}
			draws++
		}
		if time.Now().After(until) {
			break
		}
	}
	t.Logf("%d plans, faults: %v", draws, faults)
	if faults["killed"] == 0 || faults["terminated"] == 0 || faults["shares written"] == 0 {
		t.Error("nothing was tested: no shard was disturbed")
	}
}

// TestShardsWriteSteps checks that the files with all channels of a step equal one process's files, too.
func TestShardsWriteSteps(t *testing.T) {
	if !e2e.WithTokenizers() {
		t.Skip("SKIPPED: no token batches without a tokenizer")
	}
	b := newShardBed(t, 5)
	b.AddTasks(t, 80)
	b.Must(t, b.Command(nil, "run", "--config-file", "steps.yml", "--run-id", "r", "--output-dir", "whole"))
	steps, err := filepath.Glob(filepath.Join(b.Dir, "whole/r/batches/steps/*/*.safetensors"))
	if err != nil || len(steps) < 2 {
		t.Fatalf("steps: %v (%v)", steps, err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	b.inShards(t, r, b.Content(t, "whole"), "out", "steps.yml", map[string]int{}, "--shards", "3")
}

// TestShardsSayWhatTheyDid checks that each stage of a shard prints how much it made, and again if it is run a second
// time.
func TestShardsSayWhatTheyDid(t *testing.T) {
	b := newShardBed(t, 20)
	b.AddTasks(t, 40)
	b.Must(t, b.Planned("out", "tasks.yml", "--shards", "2"))
	said := func(stage string, i int) string {
		t.Helper()
		first := b.Must(t, b.Shard("out", stage, i)).Stdout
		if again := b.Must(t, b.Shard("out", stage, i)).Stdout; !strings.HasSuffix(again, first) ||
			!strings.HasPrefix(again, "  warning  the shard ") || !strings.Contains(again, "already") {
			t.Errorf("stage %s said %q, and then %q", stage, first, again)
		}
		return first
	}
	for _, stage := range []string{"build", "group"} {
		for i := range 2 {
			if got := said(stage, i); !strings.HasPrefix(got, fmt.Sprintf("shard %d  completed: ", i)) ||
				!strings.HasSuffix(got, " records\n") {
				t.Errorf("stage %s: %q", stage, got)
			}
		}
	}
	b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	rows, batches := 0, 0
	for i := range 2 {
		var r, n int
		line := fmt.Sprintf("shard %d  completed: %%d rows", i)
		if e2e.WithTokenizers() {
			line += " and %d token batches"
		}
		got := said("write", i)
		if k, _ := fmt.Sscanf(got, line+" written\n", &r, &n); k == 0 || k == 1 && e2e.WithTokenizers() {
			t.Errorf("the write stage: %q", got)
		}
		rows, batches = rows+r, batches+n
	}
	res := b.Must(t, b.Command(nil, "shard", "run", "out/r.shards", "--stage", "write", "--index", "0", "--json"))
	var about struct{ Written *struct{ Rows, Batches int } }
	err := json.Unmarshal([]byte(res.Stdout), &about)
	if err != nil || about.Written == nil || about.Written.Rows == 0 {
		t.Errorf("%v: %s", err, res.Stdout)
	}
	b.Must(t, b.Merged("out"))
	text, err := os.ReadFile(filepath.Join(b.Dir, "out", "r", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var made struct {
		Dataset []struct{ Files []struct{ Rows int } }
	}
	if err := json.Unmarshal(text, &made); err != nil {
		t.Fatal(err)
	}
	want, files := 0, 0
	for _, format := range made.Dataset {
		for _, f := range format.Files {
			want += f.Rows
		}
	}
	for name := range b.Content(t, "out") {
		if strings.HasSuffix(name, ".safetensors") {
			files++
		}
	}
	if rows != want || batches != files {
		t.Errorf("the shards wrote %d rows and %d batches; the run has %d and %d", rows, batches, want, files)
	}
}

// TestShardsWithoutExamples checks that shards with no examples are counted, and build and write nothing.
func TestShardsWithoutExamples(t *testing.T) {
	b := newShardBed(t, 5)
	b.Write(t, "one.jsonl", `{"id":"e","turn_id":"t","prompt":"p","output":"a","score":1}`+"\n"+
		`{"id":"e","turn_id":"t","prompt":"p","output":"b","score":0}`+"\n")
	one := []string{"--from", "one.jsonl", "--shards", "4"}
	if res := b.Must(t, b.Planned("out", "dpo.yml", one...)); !strings.Contains(res.Stdout,
		"nothing to build in 3 shards") {
		t.Errorf("the plan says %q", res.Stdout)
	}
	b.Must(t, b.Command(nil, "run", "--config-file", "dpo.yml", "--run-id", "r", "--output-dir", "whole",
		"--from", "one.jsonl"))
	for i := range 4 {
		b.Must(t, b.Shard("out", "build", i))
	}
	b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	for i := range 4 {
		b.Must(t, b.Shard("out", "write", i))
	}
	b.Must(t, b.Merged("out"))
	b.Same(t, b.Content(t, "whole"), "out")
}

// TestShardsKeepDecisions checks that the merge that joins the shards' rows uses the decisions made when the writing
// was divided, and refuses any others.
func TestShardsKeepDecisions(t *testing.T) {
	b := newShardBed(t, 10)
	b.Must(t, b.Planned("out", "dpo.yml", "--shards", "2"))
	for _, i := range []int{0, 1} {
		b.Must(t, b.Shard("out", "build", i))
	}
	b.Must(t, b.Command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	for _, i := range []int{0, 1} {
		b.Must(t, b.Shard("out", "write", i))
	}
	name := "out/r/records/decisions.bin"
	text, err := os.ReadFile(filepath.Join(b.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(t, name, string(text[:len(text)-1])+"?")
	b.Refused(t, b.Merged("out"), 1, "is not the run that was divided")
	b.Write(t, name, string(text))
	b.Must(t, b.Merged("out"))
}

// TestShardsRefuse checks that a change since the plan to anything that affects the data set is named, with the exit
// code that tells a scheduler not to try again.
func TestShardsRefuse(t *testing.T) {
	b := newShardBed(t, 10)
	b.Write(t, "var.yml", `
trajectory_builders: {b: {_type: dpo_traj_builder, min_score_diff: ${MARGIN:-0.1}}}
sources: {runs: {_type: candidates, path: in/a.jsonl}}
finetuning: {enabled: true, trajectory_builder: b, output_dir: out}
`)
	b.Must(t, b.Planned("out", "var.yml", "--shards", "3"))
	b.Refused(t, b.Planned("out", "var.yml", "--shards", "3"), 2, "out/r.shards already has a plan")
	b.Refused(t, b.Planned("other", "var.yml"), 2, "missing number of shards")
	b.Refused(t, b.Planned("other", "var.yml", "--shards", "2", "--shard-bytes", "9"), 2, "use one of them")
	b.Refused(t, b.Planned("other", "var.yml", "--shards", "-2"), 2, "must be at least 1")
	b.Refused(t, b.Command(nil, "shard", "status", "out/r.shards", "--stage", "group"), 2,
		"[build] and, once a merge has divided the data set, write")
	b.Refused(t, b.Planned("other", "var.yml", "--shards", "2", "--compat", "nat"), 2, "which can't be divided")
	at := func(env []string, args ...string) *exec.Cmd {
		return b.Command(env, append([]string{"shard", "run", "out/r.shards"}, args...)...)
	}
	b.Refused(t, b.Merged("out"), 1, "3 of the 3 shards are not built yet: 0-2")
	b.Refused(
		t,
		at([]string{"MARGIN=0.3"}, "--index", "0"),
		4,
		"trajectory_builders.b.min_score_diff changed since the plan was made",
	)
	b.Refused(t, at(nil), 4, "missing shard number: set --index")
	b.Refused(t, at(nil, "--index", "3"), 4, "the plan's 3 shards are numbered from 0 to 2")
	b.Refused(t, at(nil, "--index", "0", "--stage", "group"), 4, "[build] and, once a merge has divided the data set, write")
	if res := e2e.Finish(t, at(nil, "--index", "3")); res.Stdout != "shard 3  failed\n" {
		t.Errorf("a shard that failed says %q", res.Stdout)
	}
	b.Refused(
		t,
		at([]string{"SLURM_ARRAY_TASK_ID=1", "JOB_COMPLETION_INDEX=2"}),
		4,
		"SLURM_ARRAY_TASK_ID specifies shard 1 but JOB_COMPLETION_INDEX specifies shard 2",
	)
	b.Refused(t, at([]string{"NATGO_SHARD=1/4"}), 4, `NATGO_SHARD is "1/4", but the plan has 3 shards`)
	b.Must(t, at([]string{"NATGO_SHARD=1/3", "SLURM_ARRAY_TASK_ID=1"}))
	if r := b.Must(t, b.Command(nil, "shard", "status", "out/r.shards")); !strings.Contains(
		r.Stdout,
		"missing  0,2\n",
	) {
		t.Errorf("status says %q", r.Stdout)
	}
	b.Refused(t, b.Command(nil, "shard", "run", "nowhere", "--index", "0"), 3, "no plan in nowhere")

	in := filepath.Join(b.Dir, "in", "a.jsonl")
	text, err := os.ReadFile(in)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(t, "in/a.jsonl", strings.Replace(string(text), "answer 1", "answer 9", 1))
	b.Refused(t, at(nil, "--index", "0"), 4, "input in/a.jsonl changed since the plan was made")
	last := strings.LastIndex(string(text), "answer ")
	b.Write(t, "in/a.jsonl", string(text[:last])+"ANSWER "+string(text[last+len("answer "):]))
	b.Refused(t, at(nil, "--index", "2"), 4, "input in/a.jsonl changed since the plan was made")
	b.Write(t, "in/a.jsonl", string(text)+"\n")
	b.Refused(t, at(nil, "--index", "0"), 4, "in/a.jsonl had", "when the plan was made")
	b.Write(t, "in/a.jsonl", string(text))
	if err := os.RemoveAll(filepath.Join(b.Dir, "out/r.shards/build/00000")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.Dir, "out/r.shards/build/00002")); err != nil {
		t.Fatal(err)
	}
	b.Must(t, at(nil, "--index", "0"))
	b.Must(t, at(nil, "--index", "2"))

	log := "out/r.shards/build/00002/records/records.log"
	whole, err := os.ReadFile(filepath.Join(b.Dir, log))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	b.Write(t, log, string(damaged))
	b.Refused(t, b.Merged("out"), 3, "records.log is damaged", "rerun")
	b.Write(t, log, string(whole))

	// A shard can't group tasks until all examples are there.
	b.AddTasks(t, 12)
	b.Must(t, b.Planned("tasks", "tasks.yml", "--shards", "2"))
	b.Must(t, b.Shard("tasks", "build", 1))
	b.Refused(t, b.Shard("tasks", "group", 0), 3, "not been read yet: 0", "shard run tasks/r.shards --index I")
	b.Refused(t, b.Shard("out", "group", 0), 4, "the stages of this plan are [build]")
	b.Must(t, b.Shard("tasks", "build", 0))
	b.Must(t, b.Shard("tasks", "group", 0))
	b.Refused(t, b.Merged("tasks"), 1, "1 of the 2 shards is not built yet: 1", "--stage group")
	r := b.Must(t, b.Command(nil, "shard", "status", "tasks/r.shards"))
	if !strings.Contains(r.Stdout, "missing  1\n") {
		t.Errorf("status says %q", r.Stdout)
	}
	spill := "tasks/r.shards/build/00000/records/examples.spill"
	kept, err := os.ReadFile(filepath.Join(b.Dir, spill))
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)-1] ^= 1
	b.Write(t, spill, string(kept))
	b.Refused(t, b.Shard("tasks", "group", 1), 3, "examples.spill is damaged", "rerun")
	kept[len(kept)-1] ^= 1
	b.Write(t, spill, string(kept))
	b.Must(t, b.Shard("tasks", "group", 1))
	if e2e.WithTokenizers() { // the merge uses the rows that the shards tokenised
		rows := "tasks/r.shards/group/00001/records/prepared.bin"
		made, err := os.ReadFile(filepath.Join(b.Dir, rows))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(t, rows, string(made[:len(made)-1])) // as a killed attempt leaves it
		if err := os.Remove(filepath.Join(b.Dir, "tasks/r.shards/group/00001/shard.json")); err != nil {
			t.Fatal(err)
		}
		b.Must(t, b.Shard("tasks", "group", 1))
		if again, err := os.ReadFile(filepath.Join(b.Dir, rows)); err != nil || !bytes.Equal(made, again) {
			t.Errorf("continued, prepared.bin differs: got %d bytes, want %d (%v)", len(again), len(made), err)
		}
		made[len(made)/2] ^= 1
		b.Write(t, rows, string(made))
		b.Refused(t, b.Merged("tasks"), 3, "prepared.bin is damaged", "rerun")
	}

	plan := "out/r.shards/plan.json"
	was, err := os.ReadFile(filepath.Join(b.Dir, plan))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(t, plan, strings.Replace(string(was), `"offset": `, `"offset": 1`, 1))
	b.Refused(t, at(nil, "--index", "0"), 4, "plan.json was changed since it was written")
	b.Write(t, plan, string(was))
	b.Must(t, b.Merged("out"))
	b.Refused(t, b.Merged("out"), 2, "already merged")
}

// planOf returns how many shards the plan has, and their stages.
func planOf(t *testing.T, b *bed, out string) (n int, stages []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Dir, out, "r.shards", "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Shards []json.RawMessage
		Tasks  bool
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	if plan.Tasks {
		return len(plan.Shards), []string{"build", "group"}
	}
	return len(plan.Shards), []string{"build"}
}
