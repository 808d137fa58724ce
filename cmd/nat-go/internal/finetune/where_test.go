package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/read"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestWhere checks that a run uses only the data that dataset.where selects, counts the rest by clause, and writes the
// same bytes even if it is interrupted or divided. The clauses filter examples, tasks and records.
func TestWhere(t *testing.T) {
	t.Chdir(t.TempDir())
	from := []string{"in.jsonl", "more.jsonl"}
	rollouts := writeRollouts(t, from, 120)
	config := func(name, builders, filter string) {
		text := fmt.Sprintf("trajectory_builders: {group: {_type: grpo_traj_builder, drop_equal_rewards: false}, "+
			"best: {_type: sft_traj_builder, from: rollouts, select: all}}\n"+
			"dataset: {formats: [trl, kto], split: {validation: 0}, where: %q}\n"+
			"finetuning: {enabled: true, trajectory_builder: %s, output_dir: out}\n", filter, builders)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config("examples.yml", "best", `turns < 3 and (reward > 0.2 or not scored)`)
	config("tasks.yml", "[group, best]", `reward > 0.2 and spread > 0.3 and turns < 3 and (kind != "rollout" or score < 1)`)
	config("records.yml", "best", `rollouts > 2 and builder == "best"`)
	for name, steps := range map[string][]clause{
		"examples": {
			{"turns < 3", "example", func(r *rollout) bool { return r.turns < 3 }},
			{"(reward > 0.2 or not scored)", "example", func(r *rollout) bool { return r.reward > 0.2 || r.reward < 0 }},
		},
		"tasks": {
			{"reward > 0.2", "example", func(r *rollout) bool { return r.reward > 0.2 }},
			{"turns < 3", "example", func(r *rollout) bool { return r.turns < 3 }},
			{"spread > 0.3", "record", func(r *rollout) bool { return r.spread > 0.3 }},
			{`(kind != "rollout" or score < 1)`, "record", func(r *rollout) bool {
				return r.kind != "rollout" || r.reward < 1
			}},
		},
		"records": {
			{"rollouts > 2", "record", func(r *rollout) bool { return r.task > 2 }},
			{`builder == "best"`, "record", func(*rollout) bool { return true }},
		},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request{
				ConfigFile: name + ".yml", DryRun: true, Choice: read.Choice{From: from, Source: "traces"}, RunID: name,
			}
			sum, err := Run(t.Context(), req, testEnv(t))
			if err != nil {
				t.Fatal(err)
			}
			kinds := []string{"demonstration"}
			if name == "tasks" {
				kinds = append(kinds, "rollout")
			}
			if d := cmp.Diff(funnelOf(rollouts, steps, kinds), sum.Where); d != "" {
				t.Error(d)
			}
			planned, err := Run(t.Context(), Request{
				ConfigFile: name + ".yml", Plan: true, Choice: read.Choice{From: from, Source: "traces"},
			}, testEnv(t))
			if d := cmp.Diff(sum.Where, planned.Where); d != "" || err != nil {
				t.Error(d, err)
			}
			var words strings.Builder
			if err := WriteSummary(&words, sum, Look{}); err != nil ||
				!strings.Contains(words.String(), "  where    "+sum.Where[0].String()+"\n") {
				t.Error(words.String(), err)
			}
			whole := dataOf(t, "out/"+name)
			countsDrops(t, whole["dropped.jsonl"], sum)
			resumedWhere(t, req, whole)
			for _, n := range []int{1, 3} {
				dividedWhere(t, req, n, whole)
			}
		})
	}
}

// rollout holds the fields of an example that a filter can read.
type rollout struct {
	turns, task    int // of its task: the examples
	reward, spread float64
	name, kind     string
}

type clause struct {
	clause, unit string
	holds        func(*rollout) bool
}

// writeRollouts writes rollouts of tasks to two files. A reward of -1 means that the rollout lacks one.
func writeRollouts(t *testing.T, paths []string, n int) (all []*rollout) {
	t.Helper()
	var b strings.Builder
	for i := range n {
		r := &rollout{turns: 1 + i*i%4, reward: float64(i*7%5) / 4, name: fmt.Sprint("t", i*i%31)}
		score := fmt.Sprintf(`, "reward": %v`, r.reward)
		if i%11 == 0 {
			r.reward, score = -1, ""
		}
		messages := strings.Repeat(fmt.Sprintf(`{"role": "user", "content": "q%d"}, {"role": "assistant", "content": "a%d"}, `,
			i, i), r.turns)
		fmt.Fprintf(&b, `{"id": "e%d", "task_id": %q, "messages": [%s]%s}`+"\n", i, r.name,
			strings.TrimSuffix(messages, ", "), score)
		all = append(all, r)
	}
	lines := slices.Collect(strings.Lines(b.String()))
	for i, part := range [][]string{lines[:n/3], lines[n/3:]} {
		if err := os.WriteFile(paths[i], []byte(strings.Join(part, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// funnelOf applies the steps in order, first to examples and then to the records of each kind.
func funnelOf(all []*rollout, steps []clause, kinds []string) (out []where.Step) {
	records := false
	for _, s := range steps {
		if s.unit == "record" && !records {
			records = true
			all = recordsOf(all, kinds)
		}
		var left []*rollout
		for _, r := range all {
			if s.holds(r) {
				left = append(left, r)
			}
		}
		all = left
		out = append(out, where.Step{Clause: s.clause, Unit: s.unit, Left: int64(len(left))})
	}
	return out
}

func recordsOf(all []*rollout, kinds []string) (out []*rollout) {
	type task struct {
		n         int
		low, high float64
	}
	tasks := map[string]*task{}
	for _, r := range all {
		if tasks[r.name] == nil {
			tasks[r.name] = &task{low: 9, high: -9}
		}
		x := tasks[r.name]
		x.n++
		if r.reward >= 0 {
			x.low, x.high = min(x.low, r.reward), max(x.high, r.reward)
		}
	}
	for _, r := range all {
		for _, kind := range kinds {
			one := *r
			one.kind, one.task, one.spread = kind, tasks[r.name].n, tasks[r.name].high-tasks[r.name].low
			out = append(out, &one)
		}
	}
	return out
}

// countsDrops checks that each drop is listed with its clause, and that the counts balance.
func countsDrops(t *testing.T, list string, sum *Summary) {
	t.Helper()
	listed := map[string]int64{}
	for line := range strings.Lines(list) {
		var d ledger.Drop
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.Reason == where.NotMet {
			listed[d.Unit]++
			if d.Detail == "" || d.Example == "" || !strings.HasSuffix(d.File, ".jsonl") {
				t.Errorf("got the drop %+v", d)
			}
		}
	}
	for _, a := range sum.Accounts {
		if a.In != a.Out+a.DroppedTotal() {
			t.Errorf("the account %+v doesn't balance", a)
		}
		if n := a.Dropped[where.NotMet]; n > 0 && n != listed[a.Unit] {
			t.Errorf("%d of %d drops of a %s are listed", listed[a.Unit], n, a.Unit)
		}
	}
}

func resumedWhere(t *testing.T, req Request, whole map[string]string) {
	t.Helper()
	for _, stop := range []int{1, 5, 20, 30, 36, 42, 50, 60} {
		req.RunID = fmt.Sprint(req.ConfigFile, "-stopped-", stop)
		env := testEnv(t)
		env.CommitBytes = 1
		ctx, cancel := context.WithCancel(t.Context())
		env.Progress = func(stage.Progress) {
			if stop--; stop == 0 {
				cancel()
			}
		}
		_, err := Run(ctx, req, env)
		cancel()
		if err == nil { // it ended before the interruption
			break
		}
		if exit.Code(err) != exit.Interrupted {
			t.Fatalf("%s: %v", req.RunID, err)
		}
		again, err := Run(t.Context(), Request{Resume: runfolder.Folder("out/" + req.RunID)}, testEnv(t))
		if err != nil {
			t.Fatalf("%s: %v", req.RunID, err)
		}
		if d := cmp.Diff(whole, dataOf(t, "out/"+req.RunID)); d != "" || len(again.Where) == 0 {
			t.Errorf("%s: %s", req.RunID, d)
		}
	}
}

func dividedWhere(t *testing.T, req Request, n int, whole map[string]string) {
	t.Helper()
	dir := shards.Folder(fmt.Sprint(req.ConfigFile, "-plan-", n))
	req.RunID, req.Divide = fmt.Sprint(req.RunID, "-divided-", n), &Division{Number: n, Dir: string(dir)}
	sum, err := Run(t.Context(), req, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	stages := []shards.Stage{shards.Build}
	if sum.Planned.Plan.Tasks {
		stages = append(stages, shards.Group)
	}
	for _, stage := range stages {
		for i := range n {
			if _, err := Run(t.Context(), Request{Shard: &Shard{Plan: dir, Stage: stage, Number: i}}, testEnv(t)); err != nil {
				t.Fatal(stage, i, err)
			}
		}
	}
	merged, err := Run(t.Context(), Request{Merge: dir}, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, dataOf(t, "out/"+req.RunID)); d != "" {
		t.Error(d)
	}
	if len(merged.Where) == 0 {
		t.Error("the merge says nothing about dataset.where")
	}
}

// TestWhereNeedsTasks divides a run whose builder takes single examples, but whose filter counts the rollouts of a
// task.
func TestWhereNeedsTasks(t *testing.T) {
	t.Chdir(t.TempDir())
	var rows strings.Builder
	for i := range 30 {
		fmt.Fprintf(&rows, `{"id": "e%d", "task_id": "t%d", "prompt": "q%d", "responses": [{"text": "a", "score": 1}, `+
			`{"text": "b", "score": 0}]}`+"\n", i, i*i%11, i)
	}
	for name, text := range map[string]string{
		"in.jsonl": rows.String(),
		"of.yml": "trajectory_builders: {b: {_type: dpo_traj_builder}}\ndataset: {where: rollouts > 3}\n" +
			"finetuning: {enabled: true, trajectory_builder: b, output_dir: out}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := Request{
		ConfigFile: "of.yml", DryRun: true, RunID: "whole",
		Choice: read.Choice{From: []string{"in.jsonl"}, Source: "candidates"},
	}
	sum, err := Run(t.Context(), req, testEnv(t))
	if err != nil {
		t.Fatal(err)
	}
	if c := sum.Counts; c.Records != 27 {
		t.Errorf("%+v", c)
	}
	dividedWhere(t, req, 3, dataOf(t, "out/whole"))
}
