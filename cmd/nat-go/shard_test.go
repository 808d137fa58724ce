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

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
)

// These tests divide runs into shards, disrupt those, and check that the merge produces the same bytes as the run of
// one process.

// newShardBed has inputs that are hard to cut: ids that repeat across any cut, lines without an id, lines that aren't
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

// addTasks adds traces of tasks whose rollouts are far apart, in several files, and a configuration with builders that
// take tasks; with token batches, if this build has a tokenizer.
func (b *bed) addTasks(t *testing.T, traces int) {
	t.Helper()
	text, err := os.ReadFile("../../examples/hints/traces.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	r := rand.New(rand.NewPCG(5, 5))
	var files [3]strings.Builder
	for i := range traces {
		var trace map[string]json.RawMessage
		if err := json.Unmarshal([]byte(lines[r.IntN(len(lines))]), &trace); err != nil {
			t.Fatal(err)
		}
		set := func(key string, value any) { trace[key], _ = json.Marshal(value) }
		set("id", fmt.Sprint("trace ", r.IntN(traces)))
		set("trial", i)
		set("reward", float64(r.IntN(5))/4)
		set("task_id", fmt.Sprint("task ", r.IntN(1+traces/4)))
		switch r.IntN(12) {
		case 0:
			delete(trace, "task_id")
		case 1:
			set("messages", 17) // is dropped
		case 2:
			set("rewards", 1) // is listed
		}
		line, err := json.Marshal(trace)
		if err != nil {
			t.Fatal(err)
		}
		line = bytes.ReplaceAll(line, []byte("Grace"), fmt.Append(nil, "Grace", r.IntN(traces)))
		fmt.Fprintf(&files[i*4/traces%3], "%s\n", line)
	}
	for i := range files {
		b.write(t, fmt.Sprintf("in/traces%d.jsonl", i), files[i].String())
	}
	collator := ""
	if withTokenizers() {
		tokenizer, err := filepath.Abs("../../examples/hints/tokenizer")
		if err != nil {
			t.Fatal(err)
		}
		collator = fmt.Sprintf("collator: {tokenizer: %q, policy: booker-1, max_length: 4096, batch_tokens: 8192}",
			tokenizer)
	}
	tasks := `
sources: {runs: {_type: traces, path: ["in/traces*.jsonl"]}}
trajectory_builders:
  hints: {_type: sdpo_traj_builder, emit: [distillation, repair_pairs], hints: {allow: [knowable], sources: [schema]}}
  rollouts: {_type: grpo_traj_builder}
  shown: {_type: sft_traj_builder}
dataset: {formats: [trl, messages, verl]}
finetuning: {enabled: true, trajectory_builder: [hints, rollouts, shown], output_dir: out}
`
	b.write(t, "tasks.yml", collator+tasks)
	b.write(t, "steps.yml", strings.Replace(collator, "{", "{format: composer, composer: {files: step}, ", 1)+tasks)
}

// scored returns scored answers as lines.
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

func (b *bed) shard(out, stage string, index int) *exec.Cmd {
	dir := filepath.Join(out, "r.shards")
	return b.command(nil, "shard", "run", dir, "--stage", stage, "--index", strconv.Itoa(index))
}

func (b *bed) merged(out string) *exec.Cmd {
	return b.command(nil, "shard", "merge", filepath.Join(out, "r.shards"))
}

// planOf returns how many shards the plan has, and their stages.
func (b *bed) planOf(t *testing.T, out string) (n int, stages []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, out, "r.shards", "plan.json"))
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

// disturb starts a command and ends it in some way before it is done, or starts it twice. It reports whether the
// command was disturbed.
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
	case 3: // once more, alongside it
		if res := finish(t, cmd()); res.code != 0 && res.code != 3 && !refusesTwo(res) {
			t.Errorf("beside another process: exit %d: %s", res.code, res.stderr)
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
func refusesTwo(r result) bool {
	return r.code == 2 && (strings.Contains(r.stderr, "merged already") || strings.Contains(r.stderr, "is working on"))
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
	b.must(t, b.planned(out, config, how...))
	took := 200 * time.Millisecond
	n, stages := b.planOf(t, out)
	for _, stage := range stages {
		for _, i := range r.Perm(n) {
			cmd := func() *exec.Cmd { return b.shard(out, stage, i) }
			for range 3 {
				faults[b.disturb(t, r, cmd, took)]++
			}
			began := time.Now()
			b.must(t, cmd())
			took = time.Since(began)
		}
	}
	if r := b.must(t, b.command(nil, "shard", "status", "-q", filepath.Join(out, "r.shards"))); strings.TrimSpace(
		r.stdout,
	) != "" {
		t.Errorf("missing: %s", r.stdout)
	}
	if r.IntN(3) > 0 || strings.Contains(t.Name(), "Write") {
		b.writeInShards(t, r, out, n, took, faults)
	}
	b.holdWhatTheyName(t, out)
	faults[b.disturb(t, r, func() *exec.Cmd { return b.merged(out) }, 2*took)]++
	if res := finish(t, b.merged(out)); res.code != 0 && !strings.Contains(res.stderr, "merged already") {
		t.Fatalf("merge: exit %d: %s%s", res.code, res.stdout, res.stderr)
	}
	if res := finish(t, b.resume(out)); res.code != 0 { // submits what a disturbed merge did not
		t.Fatalf("resume: exit %d: %s", res.code, res.stderr)
	}
	b.same(t, want, out)
}

// holdWhatTheyName checks the files of all shards against their manifests.
func (b *bed) holdWhatTheyName(t *testing.T, out string) {
	t.Helper()
	manifests, err := filepath.Glob(filepath.Join(b.dir, out, "r.shards", "*", "*", "shard.json"))
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
		return b.command(nil, "shard", "merge", "--leave-writing", filepath.Join(out, "r.shards"))
	}
	faults[b.disturb(t, r, leave, 2*took)]++
	for range 2 { // running it again says what comes next
		b.must(t, leave())
	}
	for _, i := range r.Perm(n) {
		cmd := func() *exec.Cmd { return b.shard(out, "write", i) }
		for range 2 {
			faults[b.disturb(t, r, cmd, took)]++
		}
		b.must(t, cmd())
		faults["shares written"]++
	}
	if r := b.must(t, b.command(nil, "shard", "status", "-q", filepath.Join(out, "r.shards"))); strings.TrimSpace(
		r.stdout) != "" {
		t.Errorf("not written: %s", r.stdout)
	}
}

// TestShards: whatever the number of shards, the order and the faults, the result is that of one process.
// NATGO_SHARD_SOAK is how long to keep drawing further cases.
func TestShards(t *testing.T) {
	b := newShardBed(t, 300)
	b.addTasks(t, 300)
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
		b.must(t, b.command(nil, "run", "--config-file", config, "--run-id", "r", "--output-dir", "whole-"+config))
		want[config] = b.content(t, "whole-"+config)
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
	if faults["killed"] == 0 || faults["terminated"] == 0 || faults["shares written"] == 0 {
		t.Error("nothing was tested: no shard was disturbed")
	}
}

// TestShardsWriteSteps: the files with all channels of a step are those of one process, too.
func TestShardsWriteSteps(t *testing.T) {
	if !withTokenizers() {
		t.Skip("SKIPPED: no token batches without a tokenizer")
	}
	b := newShardBed(t, 5)
	b.addTasks(t, 80)
	b.must(t, b.command(nil, "run", "--config-file", "steps.yml", "--run-id", "r", "--output-dir", "whole"))
	steps, err := filepath.Glob(filepath.Join(b.dir, "whole/r/batches/steps/*/*.safetensors"))
	if err != nil || len(steps) < 2 {
		t.Fatalf("steps: %v (%v)", steps, err)
	}
	r := rand.New(rand.NewPCG(4, 4))
	b.inShards(t, r, b.content(t, "whole"), "out", "steps.yml", map[string]int{}, "--shards", "3")
}

// TestShardsSayWhatTheyDid checks that each stage of a shard prints how much it made, and again if it is run a second
// time.
func TestShardsSayWhatTheyDid(t *testing.T) {
	b := newShardBed(t, 20)
	b.addTasks(t, 40)
	b.must(t, b.planned("out", "tasks.yml", "--shards", "2"))
	said := func(stage string, i int) string {
		t.Helper()
		first := b.must(t, b.shard("out", stage, i)).stdout
		if again := b.must(t, b.shard("out", stage, i)).stdout; !strings.HasSuffix(again, first) ||
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
	b.must(t, b.command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	rows, batches := 0, 0
	for i := range 2 {
		var r, n int
		line := fmt.Sprintf("shard %d  completed: %%d rows", i)
		if withTokenizers() {
			line += " and %d token batches"
		}
		got := said("write", i)
		if k, _ := fmt.Sscanf(got, line+" written\n", &r, &n); k == 0 || k == 1 && withTokenizers() {
			t.Errorf("the write stage: %q", got)
		}
		rows, batches = rows+r, batches+n
	}
	res := b.must(t, b.command(nil, "shard", "run", "out/r.shards", "--stage", "write", "--index", "0", "--json"))
	var about struct{ Written *struct{ Rows, Batches int } }
	err := json.Unmarshal([]byte(res.stdout), &about)
	if err != nil || about.Written == nil || about.Written.Rows == 0 {
		t.Errorf("%v: %s", err, res.stdout)
	}
	b.must(t, b.merged("out"))
	text, err := os.ReadFile(filepath.Join(b.dir, "out", "r", "manifest.json"))
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
	for name := range b.content(t, "out") {
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
	b.write(t, "one.jsonl", `{"id":"e","turn_id":"t","prompt":"p","output":"a","score":1}`+"\n"+
		`{"id":"e","turn_id":"t","prompt":"p","output":"b","score":0}`+"\n")
	one := []string{"--from", "one.jsonl", "--shards", "4"}
	if res := b.must(t, b.planned("out", "dpo.yml", one...)); !strings.Contains(res.stdout,
		"3 shards have nothing to build") {
		t.Errorf("the plan says %q", res.stdout)
	}
	b.must(t, b.command(nil, "run", "--config-file", "dpo.yml", "--run-id", "r", "--output-dir", "whole",
		"--from", "one.jsonl"))
	for i := range 4 {
		b.must(t, b.shard("out", "build", i))
	}
	b.must(t, b.command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	for i := range 4 {
		b.must(t, b.shard("out", "write", i))
	}
	b.must(t, b.merged("out"))
	b.same(t, b.content(t, "whole"), "out")
}

// TestShardsKeepDecisions checks that the merge that joins the shards' rows uses the decisions made when the writing
// was divided, and refuses any others.
func TestShardsKeepDecisions(t *testing.T) {
	b := newShardBed(t, 10)
	b.must(t, b.planned("out", "dpo.yml", "--shards", "2"))
	for _, i := range []int{0, 1} {
		b.must(t, b.shard("out", "build", i))
	}
	b.must(t, b.command(nil, "shard", "merge", "--leave-writing", filepath.Join("out", "r.shards")))
	for _, i := range []int{0, 1} {
		b.must(t, b.shard("out", "write", i))
	}
	name := "out/r/records/decisions.bin"
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, name, string(text[:len(text)-1])+"?")
	b.refused(t, b.merged("out"), 1, "is not the run that was divided")
	b.write(t, name, string(text))
	b.must(t, b.merged("out"))
}

// TestShardsRefuse checks that a change since the plan to anything that affects the data set is named, with the exit
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
	b.refused(t, b.planned("other", "var.yml", "--shards", "2", "--shard-bytes", "9"), 2, "leave one of them out")
	b.refused(t, b.planned("other", "var.yml", "--shards", "-2"), 2, "numbers from 1 on")
	b.refused(t, b.command(nil, "shard", "status", "out/r.shards", "--stage", "group"), 2,
		"the stages of this plan are [build], and write once")
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
	b.refused(t, at(nil, "--index", "0", "--stage", "group"), 4, "the stages of this plan are [build], and write once")
	if res := finish(t, at(nil, "--index", "3")); res.stdout != "shard 3  failed\n" {
		t.Errorf("a shard that failed says %q", res.stdout)
	}
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
	last := strings.LastIndex(string(text), "answer ")
	b.write(t, "in/a.jsonl", string(text[:last])+"ANSWER "+string(text[last+len("answer "):]))
	b.refused(t, at(nil, "--index", "2"), 4, "the input in/a.jsonl changed since the plan was made")
	b.write(t, "in/a.jsonl", string(text)+"\n")
	b.refused(t, at(nil, "--index", "0"), 4, "in/a.jsonl had", "when the plan was made")
	b.write(t, "in/a.jsonl", string(text))
	if err := os.RemoveAll(filepath.Join(b.dir, "out/r.shards/build/00000")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, "out/r.shards/build/00002")); err != nil {
		t.Fatal(err)
	}
	b.must(t, at(nil, "--index", "0"))
	b.must(t, at(nil, "--index", "2"))

	log := "out/r.shards/build/00002/records/records.log"
	whole, err := os.ReadFile(filepath.Join(b.dir, log))
	if err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2] ^= 1
	b.write(t, log, string(damaged))
	b.refused(t, b.merged("out"), 3, "records.log is damaged", "run it again")
	b.write(t, log, string(whole))

	// A shard can't group tasks until all examples are there.
	b.addTasks(t, 12)
	b.must(t, b.planned("tasks", "tasks.yml", "--shards", "2"))
	b.must(t, b.shard("tasks", "build", 1))
	b.refused(t, b.shard("tasks", "group", 0), 3, "not read yet: 0", "shard run tasks/r.shards --index I")
	b.refused(t, b.shard("out", "group", 0), 4, "the stages of this plan are [build]")
	b.must(t, b.shard("tasks", "build", 0))
	b.must(t, b.shard("tasks", "group", 0))
	b.refused(t, b.merged("tasks"), 1, "1 of the 2 shards is not built yet: 1", "--stage group")
	r := b.must(t, b.command(nil, "shard", "status", "tasks/r.shards"))
	if !strings.Contains(r.stdout, "missing  1\n") {
		t.Errorf("status says %q", r.stdout)
	}
	spill := "tasks/r.shards/build/00000/records/examples.spill"
	kept, err := os.ReadFile(filepath.Join(b.dir, spill))
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)-1] ^= 1
	b.write(t, spill, string(kept))
	b.refused(t, b.shard("tasks", "group", 1), 3, "examples.spill is damaged", "run it again")
	kept[len(kept)-1] ^= 1
	b.write(t, spill, string(kept))
	b.must(t, b.shard("tasks", "group", 1))
	if withTokenizers() { // the merge uses the rows that the shards tokenised
		rows := "tasks/r.shards/group/00001/records/prepared.bin"
		made, err := os.ReadFile(filepath.Join(b.dir, rows))
		if err != nil {
			t.Fatal(err)
		}
		b.write(t, rows, string(made[:len(made)-1])) // as a killed attempt leaves it
		if err := os.Remove(filepath.Join(b.dir, "tasks/r.shards/group/00001/shard.json")); err != nil {
			t.Fatal(err)
		}
		b.must(t, b.shard("tasks", "group", 1))
		if again, err := os.ReadFile(filepath.Join(b.dir, rows)); err != nil || !bytes.Equal(made, again) {
			t.Errorf("continued, prepared.bin differs: got %d bytes, want %d (%v)", len(again), len(made), err)
		}
		made[len(made)/2] ^= 1
		b.write(t, rows, string(made))
		b.refused(t, b.merged("tasks"), 3, "prepared.bin is damaged", "run it again")
	}

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
