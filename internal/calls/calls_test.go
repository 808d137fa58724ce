package calls

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

func says(role, text string) Message {
	return Message{Message: chat.Message{Role: role, Form: chat.Text, Text: text}}
}

// plan is a call in the notation of the tests: "system user>answer".
type plan struct {
	id, agent, tool, walk string
	at                    int64
}

func add(s *Session, plans ...plan) {
	for _, p := range plans {
		given, answer, _ := strings.Cut(p.walk, ">")
		c := Call{ID: p.id, Agent: p.agent, Time: p.at, Model: "m", Output: says("assistant", answer).Message}
		for _, word := range strings.Fields(given) {
			role := "user"
			if word[0] == '=' { // an answer, as history
				role, word = "assistant", word[1:]
			}
			c.Input = append(c.Input, s.Message(says(role, word)))
		}
		if p.tool != "" {
			c.Tools = []chat.Tool{{Name: p.tool, Raw: json.Raw(`{"name":"` + p.tool + `"}`)}}
		}
		s.Add(c)
	}
}

// plansOf reads "1 #id agent:x tool:f q =a r>b; ...": the time, any attributes, the walk.
func plansOf(text string) (out []plan) {
	for _, one := range strings.Split(text, "; ") {
		at, walk, _ := strings.Cut(one, " ")
		p := plan{at: int64(at[0] - '0')}
		for {
			word, rest, _ := strings.Cut(walk, " ")
			key, value, found := strings.Cut(word, ":")
			switch {
			case word[0] == '#':
				p.id = word[1:]
			case found && key == "agent":
				p.agent = value
			case found:
				p.tool = value
			default:
				p.walk = walk
			}
			if p.walk != "" {
				break
			}
			walk = rest
		}
		out = append(out, p)
	}
	return out
}

// walks returns the branches of an example; trained nodes are marked with a star.
func walks(ex *Example) []string {
	var out []string
	for _, leaf := range ex.Graph.Leaves() {
		var b []string
		for _, n := range ex.Graph.Branch(leaf) {
			x := ex.Graph.Nodes[n]
			text := x.Message.Text
			if x.Sampled == ttc.Yes {
				text += "*"
			}
			b = append(b, text)
		}
		out = append(out, strings.Join(b, " "))
	}
	return out
}

func TestGraph(t *testing.T) {
	for name, c := range map[string]struct{ calls, want string }{
		"a conversation":     {"1 q>a; 2 q =a r>b", "s: q a* r b*"},
		"a compaction":       {"1 q>a; 2 sum =a r>b", "s: q a* | sum a r b*"},
		"an edited history":  {"1 q>a; 2 q =A r>b", "s: q a* | q A r b*"},
		"a fork":             {"1 q>a; 2 q =a r>b; 3 q =a s>c", "s: q a* r b* | q a* s c*"},
		"a retry":            {"1 q>x; 2 q>a; 3 q =a r>b", "s: q x | q a* r b*; abandoned"},
		"an ambiguous retry": {"1 q>x; 2 q>a", "s: q x | q a; ambiguous ambiguous"},
		"both went on":       {"1 q>x; 2 q>a; 3 q =a r>b; 4 q =x r>b", "s: q a* r b* | q x* r b*"},
		"recorded twice":     {"1 #1 q>a; 1 #1 q>a", "s: q a*; repeated"},
		"a copy elsewhere":   {"1 #1 q>a; 2 #1 new>a", "s: q a* | new a; copied"},
		"other tools":        {"1 tool:f q>a; 2 tool:g q =a r>b", "s: q a*; s.2: q a r b*"},
		"a sub-agent":        {"1 q>a; 2 agent:x task>b; 3 q =a r>c", "s: q a* r c*; s/x: task b*"},
		"continues with other tools": {
			"1 tool:f q>x; 2 tool:f q>a; 3 tool:g q =a r>b", "s: q x | q a*; abandoned; s.2: q a r b*",
		},
		"clocks go backwards": {"9 q>a; 2 q =a r>b", "s: q a* r b*"},
	} {
		t.Run(name, func(t *testing.T) {
			reward := 1.0
			s := NewSession("s")
			s.Reward = &reward
			add(s, plansOf(c.calls)...)
			owned := map[string]bool{}
			var got []string
			for _, ex := range s.Examples(func(id string, _ xxh3.Uint128) bool {
				first := !owned[id] || id == ""
				owned[id] = true
				return first
			}) {
				got = append(got, ex.ID+": "+strings.Join(walks(ex), " | "))
				var aside []string
				for _, a := range ex.SetAside {
					aside = append(aside, []string{"repeated", "copied", "abandoned", "ambiguous"}[a.Why])
				}
				if aside != nil {
					got = append(got, strings.Join(aside, " "))
				}
				if (ex.Reward != nil) != (ex.Agent == "") {
					t.Errorf("%s: the reward of %s is %v", name, ex.ID, ex.Reward)
				}
			}
			if g := strings.Join(got, "; "); g != c.want {
				t.Errorf("%s:\n got %s\nwant %s", name, g, c.want)
			}
		})
	}
}

// TestGraphProperty checks that whatever the calls and whatever order they come in, the result is the same examples, in
// each of which every call finds its history, and each answer is trained once or listed.
func TestGraphProperty(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 25).Draw(t, "calls")
		plans := make([]plan, n)
		for i := range plans {
			walk := ""
			for range rapid.IntRange(1, 4).Draw(t, "messages") {
				walk += rapid.SampledFrom([]string{"q ", "r ", "=a ", "=b "}).Draw(t, "message")
			}
			plans[i] = plan{
				at: rapid.Int64Range(0, 5).
					Draw(t, "time"),
				id: rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "id"),
				agent: rapid.SampledFrom([]string{"", "", "x"}).
					Draw(t, "agent"),
				tool: rapid.SampledFrom([]string{"", "f"}).Draw(t, "tool"),
				walk: walk + ">" + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "answer"),
			}
		}
		build := func(plans []plan) []*Example {
			s := NewSession("s")
			add(s, plans...)
			return s.Examples(nil)
		}
		got := build(plans)
		shuffled := rapid.Permutation(plans).Draw(t, "order")
		if d := cmp.Diff(got, build(shuffled)); d != "" {
			t.Fatalf("another order gives other examples: %s", d)
		}
		checkCalls(t, plans, got)
	})
}

func checkCalls(t *rapid.T, plans []plan, got []*Example) {
	calls, settled := 0, int64(0)
	for _, ex := range got {
		for i, n := range ex.Graph.Nodes {
			if n.Parent >= i {
				t.Fatalf("node %d has parent %d", i, n.Parent)
			}
		}
		calls += int(ex.Calls)
		settled += ex.Trained + int64(len(ex.SetAside))
		trained := int64(0)
		for _, n := range ex.Graph.Nodes {
			if n.Sampled == ttc.Yes {
				trained++
			}
		}
		if trained != ex.Trained {
			t.Fatalf("%d nodes are trained, %d are said to be", trained, ex.Trained)
		}
	}
	if calls != len(plans) || settled != int64(calls) {
		t.Fatalf("%d calls, %d of them settled, of %d", calls, settled, len(plans))
	}
	for _, p := range plans {
		want := strings.Join(strings.Fields(strings.ReplaceAll(strings.ReplaceAll(p.walk, ">", " "), "=", "")), " ")
		if !slices.ContainsFunc(got, func(ex *Example) bool {
			return ex.Agent == p.agent && (len(ex.Tools) > 0) == (p.tool != "") &&
				slices.Contains(every(&ex.Graph), want)
		}) {
			t.Fatalf("the call %+v is nowhere", p)
		}
	}
}

// every lists the walks to all nodes.
func every(g *ttc.Graph) []string {
	out := make([]string, len(g.Nodes))
	for i, n := range g.Nodes {
		out[i] = n.Message.Text
		if n.Parent >= 0 {
			out[i] = out[n.Parent] + " " + n.Message.Text
		}
	}
	return out
}

func calling(arguments string, asObject bool) Message {
	return Message{Message: chat.Message{Role: "assistant", Form: chat.Null, ToolCalls: []chat.ToolCall{
		{ID: "c", Type: "function", Name: "f", Arguments: arguments, Parsed: json.Raw(arguments), AsObject: asObject},
	}}}
}

// TestSpellingIsNoDifference: the copy of an answer in a history is recognised, however it was recorded, and the
// model's own spelling is kept.
func TestSpellingIsNoDifference(t *testing.T) {
	for _, sampled := range []string{`{"a": 49.90, "b": "\u00e9"}`, `{"b":"é","a":49.9}`} {
		for _, first := range []bool{true, false} {
			s := NewSession("s")
			q := s.Message(says("user", "q"))
			one := func() { s.Add(Call{Time: 1, Input: []Ref{q}, Output: calling(sampled, false).Message}) }
			two := func() {
				history := calling(`{"a":49.9,"b":"é"}`, true)
				history.Form, history.Parts = chat.Parts, []chat.Part{
					{Type: "text", Raw: json.Raw(`{"type":"text","text":""}`)},
				}
				s.Add(Call{Time: 2, Input: []Ref{q, s.Message(history)}, Output: says("assistant", "b").Message})
			}
			if first {
				one()
				two()
			} else {
				two()
				one()
			}
			ex := s.Examples(nil)[0]
			if len(ex.Graph.Nodes) != 3 || ex.Graph.Nodes[1].Message.ToolCalls[0].Arguments != sampled ||
				ex.Trained != 2 {
				t.Errorf("%s, %v: %+v", sampled, first, ex.Graph.Nodes)
			}
		}
	}
	for _, other := range []string{`{"a":49.91,"b":"é"}`, `{"a":"49.9","b":"é"}`, `{"a":49.9}`, `{"a":12345678901234567890,"b":"é"}`} {
		t.Run(other, func(t *testing.T) {
			var hashes []xxh3.Uint128
			for _, arguments := range []string{`{"a":49.9,"b":"é"}`, other} {
				m := calling(arguments, false)
				h, _ := sum(nil, &m)
				hashes = append(hashes, h)
			}
			if hashes[0] == hashes[1] {
				t.Errorf("%s was taken for the same", other)
			}
		})
	}
}

func TestGapsLowerTheFidelity(t *testing.T) {
	for _, c := range []struct {
		call Call
		want ttc.Fidelity
		gaps string
	}{
		{Call{}, ttc.TextOnly, ""},
		{Call{Gaps: ttc.ParsedArguments}, ttc.TextOnly, "parsed_arguments"},
		{Call{Gaps: ttc.NoTools | ttc.RebuiltHistory}, ttc.Partial, "no_tools rebuilt_history"},
		{Call{TokenIDs: []int32{1}}, ttc.IDs, ""},
		{Call{TokenIDs: []int32{1}, LogProbs: []float32{-1}}, ttc.IDsLogProbs, ""},
		{Call{TokenIDs: []int32{1}, LogProbs: []float32{-1}, Gaps: ttc.NoSystem}, ttc.Partial, "no_system_prompt"},
	} {
		t.Run(c.gaps, func(t *testing.T) {
			s := NewSession("s")
			c.call.Output = says("assistant", "a").Message
			s.Add(c.call)
			if ex := s.Examples(nil)[0]; ex.Fidelity != c.want || strings.Join(c.call.Gaps.Names(), " ") != c.gaps {
				t.Errorf("%v: fidelity %d, gaps %v", c.call.Gaps, ex.Fidelity, c.call.Gaps.Names())
			}
		})
	}
}

// TestSiblings checks that many answers to one question are set aside in linear memory, and that a session with more of
// them than MaxGiven is refused rather than held.
func TestSiblings(t *testing.T) {
	few, many := 5_000, 50_000
	if os.Getenv("NATGO_LONG") != "" {
		few, many = 100_000, 1_000_000
	}
	answered := func(n int) (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s := NewSession("s")
		q := s.Message(says("user", "q"))
		for i := range n {
			s.Add(Call{Time: int64(i), Input: []Ref{q}, Output: says("assistant", fmt.Sprint(i)).Message})
		}
		ex := s.Examples(nil)
		runtime.ReadMemStats(&after)
		if len(ex) != 1 || len(ex[0].SetAside) != n || ex[0].Trained != 0 || len(ex[0].Graph.Nodes) != n+1 {
			t.Fatalf("%d siblings: %d examples", n, len(ex))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if a, b := answered(few), answered(many); b > 15*a {
		t.Errorf("%d siblings allocate %d bytes, %d allocate %d", few, a, many, b)
	}
	s := NewSession("s")
	s.MaxGiven = int64(few)
	q := s.Message(says("user", "q"))
	for i := range many {
		s.Add(Call{Input: []Ref{q}, Output: says("assistant", fmt.Sprint(i)).Message})
	}
	if !s.TooLarge() || s.Len() != few {
		t.Errorf("%d calls are held", s.Len())
	}
}

func BenchmarkSiblings(b *testing.B) {
	for b.Loop() {
		s := NewSession("s")
		q := s.Message(says("user", "q"))
		for i := range 100_000 {
			s.Add(Call{Time: int64(i), Input: []Ref{q}, Output: says("assistant", fmt.Sprint(i)).Message})
		}
		if ex := s.Examples(nil)[0]; len(ex.SetAside) != 100_000 {
			b.Fatal(len(ex.SetAside))
		}
	}
}
