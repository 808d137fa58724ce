package verifiers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/nat-go/nat-go/internal/sessiontest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// trace builds a version 1 trace from a short form: "parent role text flags" for each node; "s" means sampled, "i" with
// ids.
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

// TestDifference31EmptyLists: empty lists and derived counts mean nothing; if a root node has the tools, they are taken
// from there.
func TestDifference31EmptyLists(t *testing.T) {
	text := episode(
		trace("t1", `,"tools":[],"num_input_tokens":5,"mm_token_type_id_map":{}`, "- user q", "0 assistant a s"),
	)
	r := sessiontest.ReadText(t, Factory(), "traces.jsonl", text)
	if len(r.Examples) != 1 || sessiontest.Walks(r.Examples[0]) != "q / a*" || r.Examples[0].Fidelity != ttc.TextOnly {
		t.Errorf("%+v %+v", r.Examples, r.Drops)
	}
	if ex := r.Examples[0]; ex.ID != "t1" || ex.Task != "E/T/3" || ex.Reward != nil {
		t.Errorf("%+v", ex)
	}
}

// TestDifference32FailedRollouts: a rollout that failed says so through ok, whatever its stop reason is called.
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
	r := sessiontest.ReadText(t, Factory(), "traces.jsonl", episode(failed, other, good))
	if len(r.Examples) != 1 || r.Examples[0].ID != "t3" || *r.Examples[0].Reward != 2.5 {
		t.Errorf("%+v", r.Examples)
	}
	if d := r.Stats.Dropped["call"]; r.Stats.Calls != 3 || d[FailedRollout] != 1 || d[NotTrainable] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestDifference33SampledLeaves: a sampled turn may be a leaf beside the copy through which the history continues. Each
// is trained once, where it was sampled.
func TestDifference33SampledLeaves(t *testing.T) {
	text := episode(trace("t1", "", "- user q", "0 assistant a si", "0 assistant a i", "2 tool r", "3 assistant b si"))
	ex := sessiontest.ReadText(t, Factory(), "traces.jsonl", text).Examples[0]
	if got := sessiontest.Walks(ex); got != "q / a* || q / a / =r / b*" || ex.Fidelity != ttc.IDsLogProbs {
		t.Errorf("%s, fidelity %d", got, ex.Fidelity)
	}
}

// TestDifference34IDsOfATurn: the ids of a turn are those that the mask selects: a header of the template precedes
// them.
func TestDifference34IDsOfATurn(t *testing.T) {
	text := episode(trace("t1", "", "- user q i", "0 assistant a si"))
	n := sessiontest.ReadText(t, Factory(), "traces.jsonl", text).Examples[0].Graph.Nodes[1]
	if !cmp.Equal(n.TokenIDs, []int32{1, 2}) || !cmp.Equal(n.LogProbs, []float32{-1, -0.5}) {
		t.Errorf("%v %v", n.TokenIDs, n.LogProbs)
	}
	bad := strings.Replace(text, `"mask":[false,true,true],"logprobs":[-1,-0.5]`, `"mask":[true],"logprobs":[]`, 2)
	if r := sessiontest.ReadText(t, Factory(), "traces.jsonl", bad); len(r.Examples) != 0 ||
		r.Stats.Dropped["session"][source.BadExample] != 1 {
		t.Errorf("%+v", r.Stats)
	}
}

// TestDifference35CallsAsTexts: version 0 writes calls as JSON texts within messages; turns are only there if they were
// asked for.
func TestDifference35CallsAsTexts(t *testing.T) {
	const calls = `"tool_calls":["{\"id\":\"c1\",\"name\":\"f\",\"arguments\":\"{ \\\"a\\\" : 1 }\"}"]`
	line := `{"example_id":4,"reward":0.5,"prompt":[{"role":"user","content":"q"}],"tool_defs":[{"name":"f","parameters":{}}],` +
		`"completion":[{"role":"assistant","content":"x",` + calls + `},{"role":"tool","tool_call_id":"c1","content":"r"},{"role":"assistant","content":"b"}]%s}` + "\n"
	turns := `,"trajectory":[{"prompt":[{"role":"user","content":"q"}],"completion":[{"role":"assistant","content":"x",` +
		`"tool_calls":[{"id":"c1","name":"f","arguments":"{ \"a\" : 1 }"}]}],"response":{"id":"r1","model":"m"}},` +
		`{"prompt":[{"role":"user","content":"q"},{"role":"assistant","content":"x",` + calls + `},{"role":"tool","tool_call_id":"c1","content":"r"}],` +
		`"completion":[{"role":"assistant","content":"b"}],"response":{"id":"r2"}}]`
	for _, more := range []string{"", turns} {
		t.Run(more, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "results.jsonl", fmt.Sprintf(line, more))
			if len(r.Examples) != 1 || sessiontest.Walks(r.Examples[0]) != "q / x[c1]* / c1=r / b*" {
				t.Fatalf("%+v %+v", r.Examples, r.Drops)
			}
			ex := r.Examples[0]
			if c := ex.Graph.Nodes[1].Message.ToolCalls[0]; c.Arguments != `{ "a" : 1 }` || ex.Task != "4" ||
				*ex.Reward != 0.5 ||
				len(ex.Tools) != 1 {
				t.Errorf("%+v", ex)
			}
		})
	}
}

// TestOrderAndCompression: chunks of seekable zstd read the same as the lines themselves, whichever files they are in.
func TestOrderAndCompression(t *testing.T) {
	var lines []string
	for i := range 6 {
		lines = append(lines, trace(fmt.Sprintf("t%d", 5-i), "", "- user q", "0 assistant a"+fmt.Sprint(i)+" s")+"\n")
	}
	var packed bytes.Buffer
	for i := 0; i < 6; i += 2 { // one frame each, then a table in a skippable frame
		enc, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		packed.Write(enc.EncodeAll([]byte(lines[i]+lines[i+1]), nil))
	}
	packed.Write([]byte{0x5E, 0x2A, 0x4D, 0x18, 4, 0, 0, 0, 1, 2, 3, 4})
	one, two := t.TempDir(), t.TempDir()
	sessiontest.Write(t, one, "00000.jsonl.zst", packed.String())
	sessiontest.Write(t, two, "a.jsonl", lines[3]+lines[0]+lines[0])
	sessiontest.Write(t, two, "b.jsonl", lines[5]+lines[1]+lines[2]+lines[4])
	show := func(r sessiontest.Reading) (out []string) {
		for _, ex := range r.Examples {
			out = append(out, ex.ID+" "+sessiontest.Walks(ex))
		}
		return out
	}
	a, b := sessiontest.Read(t, Factory(), one), sessiontest.Read(t, Factory(), two)
	if !slices.Equal(show(a), show(b)) || len(a.Examples) != 6 || a.Examples[0].ID != "t0" {
		t.Errorf("%v\n%v", show(a), show(b))
	}
	if b.Stats.Dropped["session"][source.IdenticalRow] != 1 {
		t.Errorf("%+v", b.Stats)
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
		"calls that are not JSON":  {`{"example_id":1,"prompt":[],"completion":[{"role":"assistant","tool_calls":["{"]}]}`, "map[session:map[bad_example:1]]"},
		"log-probs above zero": {
			strings.Replace(trace("t1", "", "- user q", "0 assistant a si"), "-0.5", "0.5", 1),
			"map[session:map[bad_example:1]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := sessiontest.ReadText(t, Factory(), "traces.jsonl", c.text+"\n")
			if got := fmt.Sprint(r.Stats.Dropped); got != c.want || len(r.Examples) != 0 {
				t.Errorf("%s: %s, %+v", name, got, r.Drops)
			}
		})
	}
}

// TestRecordedCalls compares the recorded rollouts with what the engine received and wrote.
func TestRecordedCalls(t *testing.T) {
	dir := sessiontest.Recorded(t)
	b, err := os.ReadFile(filepath.Join(dir, "verifiers_v1", "truth.json"))
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
	r := sessiontest.Read(t, Factory(), filepath.Join(dir, "verifiers_v1", "train"))
	var got, want []string
	for _, ex := range r.Examples {
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
	if len(r.Examples) != 2 || !slices.Equal(got, want) || r.Stats.Calls != int64(len(want)) {
		t.Errorf("%d examples; %d answers with the ids of %d calls", len(r.Examples), len(got), len(want))
	}

	b, err = os.ReadFile(filepath.Join(dir, "conversation_truth.json"))
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
	for _, folder := range []string{"verifiers_v1/eval", "verifiers_v0"} {
		t.Run(folder, func(t *testing.T) { // without ids the sampled text is kept
			r := sessiontest.Read(t, Factory(), filepath.Join(dir, folder))
			if len(r.Examples) == 0 || r.Stats.Dropped["call"][session.AmbiguousRetry] != 0 {
				t.Errorf("%s: %d examples, %+v", folder, len(r.Examples), r.Stats)
			}
			for _, ex := range r.Examples {
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
		})
	}
	if r := sessiontest.Read(t, Factory(), filepath.Join(dir, "verifiers_v1", "sandbox_error")); len(r.Examples) != 0 {
		t.Errorf("%d rollouts that failed", len(r.Examples))
	}
}

func FuzzRead(f *testing.F) {
	f.Add(episode(trace("t1", "", "- user q", "0 assistant a si")))
	f.Add(`{"example_id":1,"prompt":[{"role":"user"}],"completion":[{"role":"assistant","tool_calls":["{}"]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, a := range func() []ledger.Account {
			r := sessiontest.ReadText(t, Factory(), "t.jsonl", text+"\n")
			return r.Stats.Accounts()
		}() {
			if a.In != a.Out+a.DroppedTotal() || a.Out < 0 {
				t.Errorf("the books don't balance: %+v", a)
			}
		}
	})
}
