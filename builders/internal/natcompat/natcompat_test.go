package natcompat

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/json"
)

// TestRandomRunsAreNATs compares the results with what NAT's own builder made of random evaluations
// (testdata/make_nat.py). NATGO_NAT_CASES can name another file made by that script.
func TestRandomRunsAreNATs(t *testing.T) {
	path := "testdata/nat.jsonl"
	if p := os.Getenv("NATGO_NAT_CASES"); p != "" {
		path = p
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := json.NewReader(f, json.Values, json.Limits{})
	n, dir := 0, t.TempDir()
	for ; ; n++ {
		c, _, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		input, _ := get(c, "input").Text()
		file := filepath.Join(dir, "workflow_output.json")
		if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := buildRun(t, file, config(get(c, "config")))
		if failure, _ := get(c, "error").Text(); (failure != "") != (err != nil) {
			t.Errorf("case %d: NAT's error %q, ours %v", n, failure, err)
		}
		if err != nil {
			continue
		}
		want, _ := get(c, "expected").Text()
		g, w := canonical(t, collection(out.records, "r")), canonical(t, []byte(want))
		if g != w {
			at := 0
			for at < len(g) && at < len(w) && g[at] == w[at] {
				at++
			}
			from := max(0, at-200)
			t.Fatalf("case %d, from %d:\ngot  %.600s\nwant %.600s\ninput %.3000s", n, from, g[from:], w[from:], input)
		}
		for k, v := range get(c, "metrics").Members() {
			name, _ := k.Text()
			if x, _ := v.Int64(); out.counts[name] != x {
				t.Errorf("case %d: %s is %d, NAT has %d", n, name, out.counts[name], x)
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d cases", n)
	}
}

func get(raw json.Raw, key string) json.Raw {
	v, _ := raw.Get(key)
	return v
}

func config(c json.Raw) dpo.Config {
	cfg := schema.New[dpo.Config]()
	cfg.StepName, _ = get(c, "ttc_step_name").Text()
	cfg.ExhaustivePairs, _ = get(c, "exhaustive_pairs").Bool()
	cfg.MinScoreDiff, _ = get(c, "min_score_diff").Float64()
	cfg.RewardFromDiff, _ = get(c, "reward_from_score_diff").Bool()
	cfg.RequireMultiple, _ = get(c, "require_multiple_candidates").Bool()
	if most, ok := get(c, "max_pairs_per_turn").Int64(); ok {
		k := int(most)
		cfg.MaxPairsPerTurn = &k
	}
	return cfg
}

func build(t *testing.T, input string) (*recorder, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "workflow_output.json")
	if err := os.WriteFile(file, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	return buildRun(t, file, schema.New[dpo.Config]())
}

func step(turn, output string, score string) string {
	return `{"parent_id":"r","function_ancestry":{"function_id":"f","function_name":"n"},"payload":{"event_type":"TTC_END","name":"dpo_candidate_move",
		"data":{"input":"P","output":` + output + `,"turn_id":"` + turn + `","score":` + score + `}}}`
}

func entry(id string, steps ...string) string {
	return `{"id":` + id + `,"intermediate_steps":[` + strings.Join(steps, ",") + `]}`
}

func texts(r *recorder) string {
	s := ""
	for _, p := range r.records {
		s += p.Chosen.Text + ">" + p.Rejected.Text + " "
	}
	return s
}

// TestQuirks has one line for each unexpected thing that NAT does.
func TestQuirks(t *testing.T) {
	cases := []struct{ name, input, want string }{
		{"the last of equal ids wins", `[` + entry(`"x"`, step("t", `"a"`, "1"), step("t", `"b"`, "0")) + `,` + entry(`"x"`, step("t", `"c"`, "1"), step("t", `"d"`, "0")) + `]`, "c>d "},
		{"2 and 2.0 are one id", `[` + entry(`2`, step("t", `"a"`, "1"), step("t", `"b"`, "0")) + `,` + entry(`2.0`, step("t", `"c"`, "1"), step("t", `"d"`, "0")) + `]`, "c>d "},
		{"1 and \"1\" are two ids that share a turn", `[` + entry(`1`, step("t", `"a"`, "1")) + `,` + entry(`"1"`, step("t", `"b"`, "0")) + `]`, "a>b "},
		{"a colon joins two examples", `[` + entry(`"a::b"`, step("c", `"x"`, "1")) + `,` + entry(`"a"`, step("b::c", `"y"`, "0")) + `]`, "x>y "},
		{"ties make pairs", `[` + entry(`1`, step("t", `"a"`, "1"), step("t", `"b"`, "1")) + `]`, "a>b "},
		{"NaN is not below any least difference", `[` + entry(`1`, step("t", `"a"`, "NaN"), step("t", `"b"`, "1")) + `]`, "a>b "},
		{"outputs are printed by Python", `[` + entry(`1`, step("t", `{"a":[1,null,true,2.0]}`, "1"), step("t", `-0`, "0")) + `]`, "{'a': [1, None, True, 2.0]}> "},
		{"a missing id is an id", `[{"intermediate_steps":[` + step("t", `"a"`, "1") + `]},{"intermediate_steps":[` + step("t", `"b"`, "1") + `,` + step("t", `"c"`, "0") + `]}]`, "b>c "},
		{"a missing list of steps is an empty one", `[{"id":1},{"id":2,"intermediate_steps":null},{"id":3,"intermediate_steps":0}]`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, err := build(t, c.input)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			} else if got := texts(out); got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		})
	}
}

func TestWhatFailsARun(t *testing.T) {
	for input, want := range map[string]string{
		`[{"id":[1],"intermediate_steps":[]}]`: "unhashable type: 'list'",
		`[{"id":{},"intermediate_steps":[]}]`:  "unhashable type: 'dict'",
		`[7]`:                                  "the entry is a number",
		`[{"id":1,"intermediate_steps":7}]`:    "not an array of steps",
	} {
		t.Run(input, func(t *testing.T) {
			if _, err := build(t, input); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", input, err, want)
			}
		})
	}
}

// TestCountersAreInOrder: the counters are stored in the order in which they are counted, so it must not vary.
func TestCountersAreInOrder(t *testing.T) {
	want := strings.Fields("total_examples total_turns total_candidates total_pairs total_trajectories " +
		"skipped_single_candidate skipped_score_diff steps_rejected_by_model")
	for range 5 {
		out, err := build(t, `[`+entry(`1`, step("t", `"a"`, "1"), step("t", `"b"`, "0"))+`]`)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out.order, want) {
			t.Fatalf("got %v, want %v", out.order, want)
		}
	}
}

func TestNewRefusesWhatNATDoesNotHave(t *testing.T) {
	half := 0.5
	for _, change := range []func(*dpo.Config){
		func(c *dpo.Config) { c.Strategy = "adjacent" },
		func(c *dpo.Config) { c.ScoreDirection = "lower" },
		func(c *dpo.Config) { c.MinChosenScore = &half },
	} {
		cfg := schema.New[dpo.Config]()
		change(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
}
