package verifiers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/session"
)

// reading is what a source gave.
type reading struct {
	examples []*ttc.Example
	drops    []ledger.Drop
	stats    source.Stats
}

func read(t testing.TB, paths ...string) (r reading) {
	t.Helper()
	cfg := schema.New[Config]()
	cfg.Path = paths
	s, err := Open(
		context.Background(),
		cfg,
		source.Options{Drop: func(d ledger.Drop) { r.drops = append(r.drops, d) }},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ex, _, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			r.stats = *s.Stats()
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		r.examples = append(r.examples, ex)
	}
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// walks are the branches of an example in short; what is trained has a star.
func walks(ex *ttc.Example) string {
	var out []string
	for _, leaf := range ex.Graph.Leaves() {
		var b []string
		for _, i := range ex.Graph.Branch(leaf) {
			n := &ex.Graph.Nodes[i]
			text := n.Message.Text
			for _, c := range n.Message.ToolCalls {
				text += "[" + c.ID + "]"
			}
			if n.Sampled == ttc.Yes {
				text += "*"
			}
			b = append(b, text)
		}
		out = append(out, strings.Join(b, " / "))
	}
	return strings.Join(out, " || ")
}

// trace is a trace of version 1 in short: "parent role text flags", a node each; "s" sampled, "i" with ids.
func trace(id, more string, nodes ...string) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		`{"version":1,"id":"%s","agent":{"name":"a","trainable":true},"task":{"type":"T","data":{"idx":3}},"ok":true%s,"nodes":[`,
		id,
		more,
	)
	for i, n := range nodes {
		f := strings.Fields(n)
		if i > 0 {
			b.WriteByte(',')
		}
		parent := f[0]
		if parent == "-" {
			parent = "null"
		}
		fmt.Fprintf(
			&b,
			`{"parent":%s,"message":{"role":"%s","content":"%s"},"sampled":%v`,
			parent,
			f[1],
			f[2],
			strings.Contains(strings.Join(f[3:], ""), "s"),
		)
		if strings.Contains(strings.Join(f[3:], ""), "i") {
			fmt.Fprintf(&b, `,"token_ids":[9,%d,%d],"mask":[false,true,true],"logprobs":[-1,-0.5]`, i, i+1)
		}
		b.WriteByte('}')
	}
	return b.String() + "]}"
}

func episode(traces ...string) string {
	return `{"id":"ep","env":{"id":"E"},"task":{},"ok":true,"errors":[],"traces":[` + strings.Join(traces, ",") + "]}\n"
}

// Empty lists and derived counts mean nothing; where a root node has the tools, they are taken from there.
func TestDifference31EmptyLists(t *testing.T) {
	text := episode(
		trace("t1", `,"tools":[],"num_input_tokens":5,"mm_token_type_id_map":{}`, "- user q", "0 assistant a s"),
	)
	r := read(t, write(t, t.TempDir(), "traces.jsonl", text))
	if len(r.examples) != 1 || walks(r.examples[0]) != "q / a*" || r.examples[0].Fidelity != ttc.TextOnly {
		t.Errorf("%+v %+v", r.examples, r.drops)
	}
	if ex := r.examples[0]; ex.ID != "t1" || ex.Task != "E/T/3" || ex.Reward != nil {
		t.Errorf("%+v", ex)
	}
}

// A rollout that failed says so by ok, by whatever name it stopped.
func TestDifference32FailedRollouts(t *testing.T) {
	failed := strings.Replace(
		trace("t1", `,"stop_condition":"sandbox_error"`, "- user q", "0 assistant a s"),
		`"ok":true`,
		`"ok":false`,
		1,
	)
	other := strings.Replace(trace("t2", "", "- user q", "0 assistant a s"), `"trainable":true`, `"trainable":false`, 1)
	good := trace(
		"t3",
		`,"stop_condition":"agent_completed","rewards":{"a":{"score":1,"weight":0.5},"b":null,"c":{"score":2,"weight":1}}`,
		"- user q",
		"0 assistant a s",
	)
	r := read(t, write(t, t.TempDir(), "traces.jsonl", episode(failed, other, good)))
	if len(r.examples) != 1 || r.examples[0].ID != "t3" || *r.examples[0].Reward != 2.5 {
		t.Errorf("%+v", r.examples)
	}
	if d := r.stats.Dropped["call"]; r.stats.Calls != 3 || d[FailedRollout] != 1 || d[NotTrainable] != 1 {
		t.Errorf("%+v", r.stats)
	}
}

// A sampled turn may be a leaf beside the copy that the history goes on through. Each is trained once, where it was
// sampled.
func TestDifference33SampledLeaves(t *testing.T) {
	text := episode(trace("t1", "", "- user q", "0 assistant a si", "0 assistant a i", "2 tool r", "3 assistant b si"))
	ex := read(t, write(t, t.TempDir(), "traces.jsonl", text)).examples[0]
	if got := walks(ex); got != "q / a* || q / a / r / b*" || ex.Fidelity != ttc.IDsLogProbs {
		t.Errorf("%s, fidelity %d", got, ex.Fidelity)
	}
}

// The ids of a turn are those that the mask says: a header of the template stands before them.
func TestDifference34IDsOfATurn(t *testing.T) {
	text := episode(trace("t1", "", "- user q i", "0 assistant a si"))
	n := read(t, write(t, t.TempDir(), "traces.jsonl", text)).examples[0].Graph.Nodes[1]
	if fmt.Sprint(n.TokenIDs, n.LogProbs) != "[1 2] [-1 -0.5]" {
		t.Errorf("%v %v", n.TokenIDs, n.LogProbs)
	}
	bad := strings.Replace(text, `"mask":[false,true,true],"logprobs":[-1,-0.5]`, `"mask":[true],"logprobs":[]`, 2)
	if r := read(t, write(t, t.TempDir(), "traces.jsonl", bad)); len(r.examples) != 0 ||
		r.stats.Dropped["session"][source.BadExample] != 1 {
		t.Errorf("%+v", r.stats)
	}
}

// Version 0 writes calls as JSON texts within messages; turns are there only if they were asked for.
func TestDifference35CallsAsTexts(t *testing.T) {
	const calls = `"tool_calls":["{\"id\":\"c1\",\"name\":\"f\",\"arguments\":\"{ \\\"a\\\" : 1 }\"}"]`
	line := `{"example_id":4,"reward":0.5,"prompt":[{"role":"user","content":"q"}],"tool_defs":[{"name":"f","parameters":{}}],` +
		`"completion":[{"role":"assistant","content":"x",` + calls + `},{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"assistant","content":"b"}]%s}` + "\n"
	turns := `,"trajectory":[{"prompt":[{"role":"user","content":"q"}],"completion":[{"role":"assistant","content":"x",` +
		`"tool_calls":[{"id":"c1","name":"f","arguments":"{ \"a\" : 1 }"}]}],"response":{"id":"r1","model":"m"}},` +
		`{"prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"x",` + calls + `},{"role":"tool","tool_call_id":"c1","content":"r"}],` +
		`"completion":[{"role":"assistant","content":"b"}],"response":{"id":"r2"}}]`
	for _, more := range []string{"", turns} {
		r := read(t, write(t, t.TempDir(), "results.jsonl", fmt.Sprintf(line, more)))
		if len(r.examples) != 1 || walks(r.examples[0]) != "q / x[c1]* / r / b*" {
			t.Fatalf("%+v %+v", r.examples, r.drops)
		}
		ex := r.examples[0]
		if c := ex.Graph.Nodes[1].Message.ToolCalls[0]; c.Arguments != `{ "a" : 1 }` || ex.Task != "4" ||
			*ex.Reward != 0.5 ||
			len(ex.Tools) != 1 {
			t.Errorf("%+v", ex)
		}
	}
}

// TestOrderAndCompression: chunks of seekable zstd read like the lines themselves, in whatever files they lie.
func TestOrderAndCompression(t *testing.T) {
	var lines []string
	for i := range 6 {
		lines = append(lines, trace(fmt.Sprintf("t%d", 5-i), "", "- user q", "0 assistant a"+fmt.Sprint(i)+" s")+"\n")
	}
	var packed bytes.Buffer
	for i := 0; i < 6; i += 2 { // a frame each, then a table in a frame to be skipped
		enc, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		packed.Write(enc.EncodeAll([]byte(lines[i]+lines[i+1]), nil))
	}
	packed.Write([]byte{0x5E, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 1, 2, 3, 4})
	one, two := t.TempDir(), t.TempDir()
	write(t, one, "00000.jsonl.zst", packed.String())
	write(t, two, "a.jsonl", lines[3]+lines[0]+lines[0])
	write(t, two, "b.jsonl", lines[5]+lines[1]+lines[2]+lines[4])
	show := func(r reading) (out []string) {
		for _, ex := range r.examples {
			out = append(out, ex.ID+" "+walks(ex))
		}
		return out
	}
	a, b := read(t, one), read(t, two)
	if !slices.Equal(show(a), show(b)) || len(a.examples) != 6 || a.examples[0].ID != "t0" {
		t.Errorf("%v\n%v", show(a), show(b))
	}
	if b.stats.Dropped["session"][source.IdenticalRow] != 1 {
		t.Errorf("%+v", b.stats)
	}
}

func TestHostileRollouts(t *testing.T) {
	good := trace("t1", "", "- user q", "0 assistant a s")
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"a parent after its child": {strings.Replace(good, `"parent":0`, `"parent":1`, 1), "map[session:map[bad_example:1]]"},
		"a torn line":              {good[:len(good)-9], "map[file:map[other_format:1] line:map[unread_line:1]]"},
		"nodes of another kind":    {`{"nodes":[1,{"message":7}],"agent":{},"id":"x"}`, "map[session:map[bad_example:1]]"},
		"calls that are no JSON":   {`{"example_id":1,"prompt":[],"completion":[{"role":"assistant","tool_calls":["{"]}]}`, "map[session:map[bad_example:1]]"},
		"log-probs above zero": {
			strings.Replace(trace("t1", "", "- user q", "0 assistant a si"), "-0.5", "0.5", 1),
			"map[session:map[bad_example:1]]",
		},
	} {
		r := read(t, write(t, t.TempDir(), "traces.jsonl", c.text+"\n"))
		if got := fmt.Sprint(r.stats.Dropped); got != c.want || len(r.examples) != 0 {
			t.Errorf("%s: %s, %+v", name, got, r.drops)
		}
	}
}

// TestRecordedCalls compares the recorded rollouts with what the engine was given and wrote.
func TestRecordedCalls(t *testing.T) {
	dir := os.Getenv("NATGO_CONFORMANCE")
	if dir == "" {
		t.Skip("NATGO_CONFORMANCE names no folder with recorded rollouts")
	}
	b, err := os.ReadFile(filepath.Join(dir, "readers", "verifiers_v1", "truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth struct {
		Calls []struct {
			IDs   []int32 `json:"completion_ids"`
			Probs []float64
		} `json:"generate_calls"`
	}
	if err := json.Unmarshal(b, &truth); err != nil {
		t.Fatal(err)
	}
	r := read(t, filepath.Join(dir, "readers", "verifiers_v1", "train"))
	var got, want []string
	for _, ex := range r.examples {
		if ex.Fidelity != ttc.IDsLogProbs || *ex.Reward != 1.125 || ex.Task == "" {
			t.Errorf("%s: fidelity %d, reward %v", ex.ID, ex.Fidelity, *ex.Reward)
		}
		for _, n := range ex.Graph.Nodes {
			if n.Sampled == ttc.Yes {
				got = append(got, fmt.Sprint(n.TokenIDs))
			}
		}
	}
	for _, c := range truth.Calls {
		want = append(want, fmt.Sprint(c.IDs))
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(r.examples) != 2 || !slices.Equal(got, want) || r.stats.Calls != int64(len(want)) {
		t.Errorf("%d examples; %d answers with the ids of %d calls", len(r.examples), len(got), len(want))
	}

	b, err = os.ReadFile(filepath.Join(dir, "readers", "conversation_truth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var conversation struct {
		Messages []struct {
			Role, Content string
			Calls         []struct {
				Name      string
				Arguments string `json:"arguments_as_sampled"`
			} `json:"tool_calls"`
		}
	}
	if err := json.Unmarshal(b, &conversation); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range conversation.Messages {
		if m.Role != "assistant" {
			continue
		}
		s := m.Content
		for _, c := range m.Calls {
			s += "|" + c.Name + c.Arguments
		}
		said = append(said, s)
	}
	for _, folder := range []string{"verifiers_v1/eval", "verifiers_v0"} { // without ids the sampled text is kept
		r := read(t, filepath.Join(dir, "readers", folder))
		if len(r.examples) == 0 || r.stats.Dropped["call"][session.AmbiguousRetry] != 0 {
			t.Errorf("%s: %d examples, %+v", folder, len(r.examples), r.stats)
		}
		for _, ex := range r.examples {
			var got []string
			for _, n := range ex.Graph.Nodes {
				if n.Sampled == ttc.Yes {
					s := n.Message.Text
					for _, c := range n.Message.ToolCalls {
						s += "|" + c.Name + c.Arguments
					}
					got = append(got, s)
				}
			}
			if !slices.Equal(got, said) {
				t.Errorf("%s, %s:\n got %q\nwant %q", folder, ex.ID, got, said)
			}
		}
	}
	if r := read(t, filepath.Join(dir, "readers", "verifiers_v1", "sandbox_error")); len(r.examples) != 0 {
		t.Errorf("%d rollouts that failed", len(r.examples))
	}
}

func FuzzRead(f *testing.F) {
	f.Add(episode(trace("t1", "", "- user q", "0 assistant a si")))
	f.Add(`{"example_id":1,"prompt":[{"role":"user"}],"completion":[{"role":"assistant","tool_calls":["{}"]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range func() []ledger.Account {
			r := read(t, write(t, t.TempDir(), "t.jsonl", text+"\n"))
			return r.stats.Accounts()
		}() {
			if a.In != a.Out+a.DroppedTotal() || a.Out < 0 {
				t.Errorf("the books don't balance: %+v", a)
			}
		}
	})
}
