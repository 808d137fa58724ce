package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/property"
	pb "github.com/nat-go/nat-go/plugins/proto/nat/builder/v1"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// texts draws anything that JSON texts can hold: lone surrogates (as WTF-8), nulls, and repeats. Some are long enough
// to be cut.
var texts = rapid.OneOf(
	rapid.SampledFrom([]string{"", "user", "assistant", "a\xed\xa0\x80b", "\x00", "日本語", "same text", "same text"}),
	rapid.String(),
	rapid.SampledFrom([]string{"x", "system", strings.Repeat("a", 70_000)}),
)

var raws = rapid.Custom(func(t *rapid.T) json.Raw {
	s := rapid.SampledFrom([]string{"", "NaN", `{"a":1e999}`, "123456789012345678901234567890", "null"}).Draw(t, "raw")
	if s == "" {
		return nil
	}
	return json.Raw(s)
})

var floats = rapid.OneOf(rapid.Float64(),
	rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1)}))

func optional[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	if !rapid.Bool().Draw(t, "has "+label) {
		return nil
	}
	v := g.Draw(t, label)
	return &v
}

func list[T any](t *rapid.T, g *rapid.Generator[T], most int, label string) []T {
	n := rapid.IntRange(0, most).Draw(t, "n "+label)
	if n == 0 {
		return nil
	}
	out := make([]T, n)
	for i := range out {
		out[i] = g.Draw(t, label)
	}
	return out
}

var members = rapid.Custom(func(t *rapid.T) chat.Member {
	return chat.Member{Key: texts.Draw(t, "key"), Value: raws.Draw(t, "value")}
})

var messages = rapid.Custom(func(t *rapid.T) chat.Message {
	m := chat.Message{
		Role:         texts.Draw(t, "role"),
		Form:         rapid.SampledFrom([]chat.Form{chat.Absent, chat.Null, chat.Text, chat.Parts}).Draw(t, "form"),
		Text:         texts.Draw(t, "text"),
		Name:         texts.Draw(t, "name"),
		ToolCallID:   texts.Draw(t, "id"),
		Reasoning:    texts.Draw(t, "reasoning"),
		ReasoningKey: texts.Draw(t, "key"),
		Extra:        list(t, members, 2, "extra"),
		ToolCalls: list(t, rapid.Custom(func(t *rapid.T) chat.ToolCall {
			return chat.ToolCall{
				ID:        texts.Draw(t, "id"),
				Type:      texts.Draw(t, "type"),
				Name:      texts.Draw(t, "name"),
				Arguments: texts.Draw(t, "arguments"),
				Parsed:    raws.Draw(t, "parsed"),
				AsObject:  rapid.Bool().Draw(t, "object"),
				Extra:     list(t, members, 2, "extra"),
			}
		}), 2, "calls"),
		Parts: list(t, rapid.Custom(func(t *rapid.T) chat.Part {
			return chat.Part{Type: texts.Draw(t, "type"), Text: texts.Draw(t, "text"), Raw: raws.Draw(t, "raw")}
		}), 2, "parts"),
	}
	return m
})

var groups = rapid.Custom(func(t *rapid.T) *ttc.Group {
	g := &ttc.Group{Key: texts.Draw(t, "key")}
	if rapid.Bool().Draw(t, "scales") { // the writer sends none that has no score
		g.Scales = &ttc.Scales{Steps: map[string]ttc.Scale{}}
		for range rapid.IntRange(1, 3).Draw(t, "steps") {
			g.Scales.Steps[texts.Draw(t, "step")] = ttc.Scale{
				Low: floats.Draw(t, "low"), High: floats.Draw(t, "high"), Known: true, Graded: rapid.Bool().Draw(t,
					"graded"),
			}
		}
		if rapid.Bool().Draw(t, "rewards") {
			g.Scales.Rewards = ttc.Scale{Low: floats.Draw(t, "low"), High: floats.Draw(t, "high"), Known: true}
		}
	}
	for range rapid.IntRange(1, 3).Draw(t, "examples") {
		ex := &ttc.Example{
			ID:     texts.Draw(t, "id"),
			Task:   texts.Draw(t, "task"),
			Trial:  texts.Draw(t, "trial"),
			Run:    rapid.Int().Draw(t, "run"),
			Row:    rapid.Int64().Draw(t, "row"),
			File:   texts.Draw(t, "file"),
			Offset: rapid.Int64().Draw(t, "offset"),
			Reward: optional(t, floats, "reward"),
			Policy: texts.Draw(t, "policy"),
			Gaps:   ttc.Gaps(rapid.IntRange(0, 255).Draw(t, "gaps")),
			Proofs: ttc.Proofs(rapid.IntRange(0, 3).Draw(t, "proofs")),
			Fidelity: rapid.SampledFrom([]ttc.Fidelity{ttc.Partial, ttc.TextOnly, ttc.IDs, ttc.IDsLogProbs}).
				Draw(t, "fidelity"),
			RawID:       raws.Draw(t, "raw id"),
			Interrupted: rapid.Bool().Draw(t, "interrupted"),
			Sampling: optional(t, rapid.Custom(func(t *rapid.T) ttc.Sampling {
				return ttc.Sampling{
					Temperature: floats.Draw(t, "t"),
					TopP:        floats.Draw(t, "p"),
					Processed:   rapid.Bool().Draw(t, "processed"),
				}
			}), "sampling"),
			TeacherTopK: optional(t, rapid.IntRange(-1, ttc.MaxTeacherTopK), "teacher top k"),
			Tools: list(t, rapid.Custom(func(t *rapid.T) chat.Tool {
				return chat.Tool{Name: texts.Draw(t, "name"), Raw: raws.Draw(t, "raw")}
			}), 2, "tools"),
			Steps: list(t, rapid.Custom(func(t *rapid.T) ttc.Step {
				return ttc.Step{Type: texts.Draw(t, "type"), Name: texts.Draw(t, "name"), Raw: raws.Draw(t, "raw")}
			}), 2, "steps"),
			Candidates: list(t, rapid.Custom(func(t *rapid.T) ttc.Candidate {
				c := ttc.Candidate{
					Step:       texts.Draw(t, "step"),
					Turn:       texts.Draw(t, "turn"),
					TurnIndex:  optional(t, rapid.Int64(), "turn index"),
					Index:      rapid.Int64().Draw(t, "index"),
					Output:     texts.Draw(t, "output"),
					Score:      floats.Draw(t, "score"),
					ScoreError: texts.Draw(t, "score error"),
					Metadata:   raws.Draw(t, "metadata"),
					Offset:     rapid.Int64().Draw(t, "offset"),
				}
				c.Prompt.Form = rapid.SampledFrom(
					[]ttc.PromptForm{ttc.TextPrompt, ttc.MessagesPrompt, ttc.OtherPrompt},
				).Draw(t, "form")
				c.Prompt.Text = texts.Draw(t, "prompt")
				c.Prompt.Messages = list(t, messages, 2, "messages")
				return c
			}), 3, "candidates"),
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := ttc.Node{
				Parent:       rapid.IntRange(-1, i-1).Draw(t, "parent"),
				Message:      messages.Draw(t, "message"),
				Policy:       texts.Draw(t, "policy"),
				Sampled:      rapid.SampledFrom([]ttc.Sampled{ttc.No, ttc.Yes, ttc.Assumed}).Draw(t, "sampled"),
				FinishReason: texts.Draw(t, "finish"),
				Error:        optional(t, rapid.Bool(), "error"),
				Failure: optional(t, rapid.Custom(func(t *rapid.T) ttc.Failure {
					return ttc.Failure{Kind: texts.Draw(t, "kind"), Meta: raws.Draw(t, "meta")}
				}), "failure"),
			}
			if rapid.Bool().Draw(t, "has ids") {
				n.TokenIDs = append([]int32{}, list(t, rapid.Int32(), 5, "ids")...)
			}
			if rapid.Bool().Draw(t, "has log-probs") {
				n.LogProbs = append([]float32{}, list(t, rapid.Float32(), 5, "log-probs")...)
			}
			ex.Graph.Nodes = append(ex.Graph.Nodes, n)
		}
		// Prompts that share memory, as a source supplies them.
		if k := len(ex.Candidates); k > 1 && rapid.Bool().Draw(t, "share") {
			ex.Candidates[k-1].Prompt = ex.Candidates[0].Prompt
		}
		g.Examples = append(g.Examples, ex)
	}
	return g
})

var equal = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreUnexported(Results{}),
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
}

// sendGroups passes groups through the writer, real bytes, and the reader.
func sendGroups(t interface{ Fatal(...any) }, gs []*ttc.Group) []*ttc.Group {
	var out []*ttc.Group
	var r GroupReader
	w := NewGroupWriter(func(m *pb.BuildRequest) error {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > FrameLimitBytes {
			t.Fatal(fmt.Sprintf("a frame of %d bytes", len(b)))
		}
		var got pb.BuildRequest
		if err := proto.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		for _, p := range got.Parts {
			g, err := r.Part(p)
			if err != nil {
				t.Fatal(err)
			}
			if g != nil {
				out = append(out, g)
			}
		}
		return nil
	})
	for i, g := range gs {
		if err := w.Group(uint64(i+1), g); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGroupsRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		in := list(t, groups, 3, "groups")
		out := sendGroups(t, in)
		if d := cmp.Diff(in, out, equal); d != "" {
			t.Fatal(d)
		}
		for i := range in {
			for e, ex := range in[i].Examples {
				for n := range ex.Graph.Nodes {
					a, b := &ex.Graph.Nodes[n], &out[i].Examples[e].Graph.Nodes[n]
					if (a.TokenIDs == nil) != (b.TokenIDs == nil) || (a.LogProbs == nil) != (b.LogProbs == nil) {
						t.Fatal("unknown and empty were mixed up")
					}
				}
			}
		}
	})
}

// TestTextsOnce checks that equal texts and prompts in a group are sent once.
func TestTextsOnce(t *testing.T) {
	long := strings.Repeat("a long prompt ", 1000)
	ex := &ttc.Example{ID: "x"}
	for i := range 100 {
		ex.Candidates = append(ex.Candidates, ttc.Candidate{
			Turn:   "t",
			Prompt: ttc.Prompt{Text: strings.Clone(long)},
			Output: fmt.Sprint("out", i%10),
		})
	}
	sent := 0
	w := NewGroupWriter(func(m *pb.BuildRequest) error { sent += proto.Size(m); return nil })
	if err := w.Group(1, &ttc.Group{Examples: []*ttc.Example{ex}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if sent > len(long)+100*40 {
		t.Errorf("%d bytes for one prompt of %d", sent, len(long))
	}
}

// TestFramesAreBounded checks that a group of any size is cut into frames of about the target size, even if it is a
// single text or a single example.
func TestFramesAreBounded(t *testing.T) {
	big := &ttc.Example{ID: "big"}
	// Frames end within texts, and the candidates before and after are unchanged.
	for i, size := range []int{10, 5 << 20, 20 << 20, 10} {
		big.Candidates = append(big.Candidates, ttc.Candidate{
			Step:     "s",
			Turn:     fmt.Sprint("t", i),
			Index:    int64(i),
			Score:    float64(i),
			Prompt:   ttc.Prompt{Text: strings.Repeat("p", size/3)},
			Output:   strings.Repeat("x", size),
			Metadata: []byte(`{}`),
			Offset:   7,
		})
	}
	for i := range 40_000 {
		big.Graph.Nodes = append(big.Graph.Nodes, ttc.Node{
			Parent:   i - 1,
			Message:  chat.Message{Role: "user", Form: chat.Text, Text: fmt.Sprint("message ", i)},
			TokenIDs: make([]int32, 64),
		})
	}
	frames := 0
	var r GroupReader
	var got *ttc.Group
	w := NewGroupWriter(func(m *pb.BuildRequest) error {
		frames++
		const oneElement = 4 * 70_000 // a message of texts too short to be cut, plus a margin
		if n := proto.Size(m); n > FrameBytes+oneElement {
			t.Errorf("frame %d has %d bytes", frames, n)
		}
		m = proto.Clone(m).(*pb.BuildRequest)
		for _, p := range m.Parts {
			g, err := r.Part(p)
			if err != nil {
				t.Fatal(err)
			}
			if g != nil {
				got = g
			}
		}
		return nil
	})
	in := &ttc.Group{Key: "k", Examples: []*ttc.Example{big}}
	if err := w.Group(1, in); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got == nil {
		t.Fatal("no group came")
	}
	if diff := cmp.Diff(in.Examples, got.Examples); diff != "" {
		t.Fatalf("the group that came is not the one that was sent (-sent +came):\n%s", diff)
	}
	if frames < 20 {
		t.Errorf("%d frames", frames)
	}
}

var contents = rapid.Custom(func(t *rapid.T) builders.Content {
	c := builders.Content{}
	ints := rapid.IntRange(-3, 3)
	c.Ref.Part = rapid.SampledFrom(
		[]builders.Part{
			builders.InlineText, builders.InlineMessages, builders.CandidatePrompt, builders.CandidateOutput,
			builders.NodeSpan,
		},
	).Draw(t, "part")
	switch c.Ref.Part {
	case builders.InlineText:
		c.Text = texts.Draw(t, "text")
	case builders.InlineMessages:
		c.Messages = list(t, messages, 2, "messages")
	case builders.NodeSpan:
		c.Ref.Example, c.Ref.Last, c.Ref.Skip = ints.Draw(t, "example"), ints.Draw(t, "last"), ints.Draw(t, "skip")
	default:
		c.Ref.Example, c.Ref.Candidate = ints.Draw(t, "example"), ints.Draw(t, "candidate")
	}
	return c
})

// records draws records of all four kinds, often pairs, the kind that travels in columns.
func records(g *ttc.Group) *rapid.Generator[builders.Record] {
	return rapid.Custom(func(t *rapid.T) builders.Record {
		head := builders.Head{
			Example:  rapid.IntRange(-1, len(g.Examples)).Draw(t, "example"),
			Turn:     texts.Draw(t, "turn"),
			Metadata: raws.Draw(t, "metadata"),
			Edits:    builders.Edits(rapid.IntRange(0, 1).Draw(t, "edits")),
		}
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0:
			return &builders.Preference{
				Head:           head,
				Prompt:         contents.Draw(t, "prompt"),
				Chosen:         contents.Draw(t, "chosen"),
				Rejected:       contents.Draw(t, "rejected"),
				Reward:         floats.Draw(t, "reward"),
				ScoreName:      texts.Draw(t, "score"),
				ChosenScore:    floats.Draw(t, "a"),
				RejectedScore:  floats.Draw(t, "b"),
				ChosenIndex:    rapid.Int64().Draw(t, "i"),
				RejectedIndex:  rapid.Int64().Draw(t, "j"),
				ChosenPolicy:   texts.Draw(t, "policy"),
				RejectedPolicy: texts.Draw(t, "policy"),
			}
		case 1:
			return &builders.Demonstration{
				Head:     head,
				Messages: contents.Draw(t, "messages"),
				Train: rapid.SampledFrom(
					[]builders.Train{builders.TrainAll, builders.TrainLast, builders.TrainCalls, builders.TrainFlagged},
				).Draw(t, "train"),
				Trained: list(t, rapid.Bool(), 4, "trained"),
				Weight:  floats.Draw(t, "weight"),
				Score:   optional(t, floats, "score"),

				MaskReasoning: rapid.Bool().Draw(t, "mask_reasoning"),
			}
		case 2:
			return &builders.Rollout{
				Head:     head,
				Messages: contents.Draw(t, "messages"),
				Reward:   optional(t, floats, "reward"),
				Task:     texts.Draw(t, "task"),
			}
		case 3:
			return &builders.State{Head: head, Messages: contents.Draw(t, "messages"), Task: texts.Draw(t, "task")}
		case 4:
			return &builders.Distillation{
				Head:     head,
				Messages: contents.Draw(t, "messages"),
				Sites: list(t, rapid.Custom(func(t *rapid.T) builders.Site {
					return builders.Site{
						Call:    rapid.Int().Draw(t, "call"),
						CallSeq: rapid.Int().Draw(t, "seq"),
						Result:  rapid.Int().Draw(t, "result"),
						Target: rapid.SampledFrom([]builders.Target{builders.FailedTurn, builders.NextTurn}).
							Draw(t, "target"),
						Tool:       texts.Draw(t, "tool"),
						Error:      texts.Draw(t, "error"),
						Hint:       texts.Draw(t, "hint"),
						HintSource: texts.Draw(t, "source"),
						HintKind: rapid.SampledFrom([]builders.HintKind{builders.Knowable, builders.Hindsight}).
							Draw(t, "hint kind"),
					}
				}), 3, "sites"),
			}
		}
		e := rapid.IntRange(0, len(g.Examples)-1).Draw(t, "example")
		cands := g.Examples[e].Candidates
		if len(cands) == 0 {
			return &builders.Rollout{Head: head}
		}
		pick := rapid.IntRange(0, len(cands)-1)
		a, b, c := pick.Draw(t, "a"), pick.Draw(t, "b"), pick.Draw(t, "c")
		ref := func(p builders.Part, i int) builders.Content {
			return builders.Content{Ref: builders.Ref{Part: p, Example: e, Candidate: i}}
		}
		head.Example, head.Turn = e, cands[a].Turn
		return &builders.Preference{
			Head:           head,
			Prompt:         ref(builders.CandidatePrompt, c),
			Chosen:         ref(builders.CandidateOutput, a),
			Rejected:       ref(builders.CandidateOutput, b),
			Reward:         floats.Draw(t, "reward"),
			ScoreName:      cands[a].Step,
			ChosenScore:    cands[a].Score,
			RejectedScore:  cands[b].Score,
			ChosenIndex:    cands[a].Index,
			RejectedIndex:  cands[b].Index,
			ChosenPolicy:   rapid.SampledFrom([]string{"", "p"}).Draw(t, "policy"),
			RejectedPolicy: rapid.SampledFrom([]string{"", "q"}).Draw(t, "policy"),
		}
	})
}

// TestNothingIsCollectedAfterAnError checks that the rest of a large group isn't copied once a frame couldn't be sent.
func TestNothingIsCollectedAfterAnError(t *testing.T) {
	broken := errors.New("broken pipe")
	w := NewGroupWriter(func(*pb.BuildRequest) error { return broken })
	ex := &ttc.Example{}
	for i := range 64 {
		text := strings.Repeat(string(rune('A'+i)), FrameBytes)
		ex.Graph.Nodes = append(ex.Graph.Nodes, ttc.Node{Parent: i - 1, Message: chat.Message{Text: text}})
	}
	if err := w.Group(0, &ttc.Group{Examples: []*ttc.Example{ex}}); !errors.Is(err, broken) {
		t.Errorf("error: %v", err)
	}
	if n := cap(w.texts.text); n > 4*FrameBytes {
		t.Errorf("%d KiB of text were collected", n>>10)
	}
}

// TestReadingDoesNotAdd checks that a reader leaves a message as it came: its size was checked before it was decoded.
func TestReadingDoesNotAdd(t *testing.T) {
	part := &pb.ResultPart{Records: []*pb.Record{
		{Kind: &pb.Record_Preference{Preference: &pb.Preference{}}},
		{Kind: &pb.Record_Demonstration{Demonstration: &pb.Demonstration{}}},
		{Kind: &pb.Record_State{}},
	}}
	before := proto.Clone(part)
	var r RecordReader
	if _, err := r.Part(part, &ttc.Group{}); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(before, part) {
		t.Errorf("%v became %v", before, part)
	}
}

// TestRecordsAreNotRetained checks that a builder may change a record once it is written.
func TestRecordsAreNotRetained(t *testing.T) {
	g := &ttc.Group{Examples: []*ttc.Example{{}}}
	var got []builders.Record
	var r RecordReader
	w := NewRecordWriter(func(m *pb.BuildResponse) error {
		for _, p := range m.Parts {
			res, err := r.Part(p, g)
			if err != nil {
				return err
			}
			if res != nil {
				got = append(got, res.Records...)
			}
		}
		return nil
	})
	w.Begin(0, g)
	score, trained := 0.5, []bool{true, false}
	demonstration := &builders.Demonstration{Train: builders.TrainFlagged, Trained: trained, Score: &score}
	rollout := &builders.Rollout{Reward: &score}
	for _, rec := range []builders.Record{demonstration, rollout} {
		if err := w.Record(rec); err != nil {
			t.Fatal(err)
		}
	}
	score, trained[0] = 0.25, false
	if err := errors.Join(w.Done("", ""), w.Flush()); err != nil {
		t.Fatal(err)
	}
	d, o := got[0].(*builders.Demonstration), got[1].(*builders.Rollout)
	if *d.Score != 0.5 || !d.Trained[0] || *o.Reward != 0.5 {
		t.Errorf("got score %v, trained %v, reward %v", *d.Score, d.Trained, *o.Reward)
	}
}

func TestResultsRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		gs := []*ttc.Group{groups.Draw(t, "group"), groups.Draw(t, "group")}
		var want, got []*Results
		var r RecordReader
		reuse := rapid.Bool().Draw(t, "reuse")
		w := NewRecordWriter(func(m *pb.BuildResponse) error {
			b, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var back pb.BuildResponse
			if err := proto.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			for _, p := range back.Parts {
				res, err := r.Part(p, gs[p.Group])
				if err != nil {
					t.Fatal(err)
				}
				if res != nil {
					res.Bytes = 0
					got = append(got, res)
					if reuse { // what comes next must not affect what was read, nor be affected by it
						kept := *res
						kept.Records = make([]builders.Record, len(res.Records))
						for i, rec := range res.Records {
							kept.Records[i] = rec
							if p, ok := rec.(*builders.Preference); ok {
								c := *p
								kept.Records[i] = &c
							}
						}
						got[len(got)-1] = &kept
						r.Reuse(res)
					}
				}
			}
			return nil
		})
		for i, g := range gs {
			res := &Results{Records: list(t, records(g), 6, "records")}
			w.Begin(uint64(i), g)
			for _, rec := range res.Records {
				if err := w.Record(rec); err != nil {
					t.Fatal(err)
				}
				if rapid.Bool().Draw(t, "drop") {
					d := ledger.Drop{
						Stage:   ledger.Build,
						Reason:  ledger.Reason(texts.Draw(t, "reason")),
						Unit:    texts.Draw(t, "unit"),
						Run:     3,
						Example: texts.Draw(t, "example"),
						Turn:    "t",
						Index:   -1,
						Builder: "b",
						Format:  "f",
						File:    "file",
						Offset:  7,
						Detail:  texts.Draw(t, "detail"),
						Count:   9,
					}
					res.Drops = append(res.Drops, d)
					if err := w.Drop(d); err != nil {
						t.Fatal(err)
					}
				}
			}
			if rapid.Bool().Draw(t, "counts") {
				res.Counts = []Count{{"turns", 5}, {"pairs", -1}}
				_ = w.Count("turns", 2)
				_ = w.Count("pairs", -1)
				_ = w.Count("turns", 3)
			}
			if rapid.Bool().Draw(t, "failed") {
				res.Failure, res.Stack = "it failed", texts.Draw(t, "stack")
			}
			if err := w.Done(res.Failure, res.Stack); err != nil {
				t.Fatal(err)
			}
			want = append(want, res)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, equal); d != "" {
			t.Fatal(d)
		}
	})
}

func TestReadersRefuse(t *testing.T) {
	g := &ttc.Group{Examples: []*ttc.Example{{Candidates: make([]ttc.Candidate, 2)}}}
	for _, c := range []struct {
		name, want string
		part       *pb.ResultPart
	}{
		{"a part too early", "unexpected part 1 of the results of group 0: expected part 0", &pb.ResultPart{Part: 1}},
		{"a text out of range", "text 9 of 0", &pb.ResultPart{Drops: []*pb.Drop{{Reason: 9}}}},
		{"an end beyond the text", "invalid text 1: it ends at 5", &pb.ResultPart{Text: []byte("abc"), Ends: []uint32{5}}},
		{"texts backwards", "invalid text 2: it ends at 1", &pb.ResultPart{Text: []byte("abc"), Ends: []uint32{2, 1}}},
		{"a record without a kind", "unknown record kind", &pb.ResultPart{Records: []*pb.Record{{}}}},
		{
			"columns of different length",
			"columns",
			&pb.ResultPart{Pairs: &pb.Pairs{Example: []uint32{0}, Prompt: []uint32{0}}},
		},
		{"fewer records than counted", "expected 1 records, got 0", &pb.ResultPart{Done: &pb.Done{Records: 1}}},
		{
			"an unknown enum",
			"unknown train 9",
			&pb.ResultPart{
				Records: []*pb.Record{{Kind: &pb.Record_Demonstration{Demonstration: &pb.Demonstration{Train: 9}}}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r RecordReader
			if _, err := r.Part(c.part, g); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
	var limited RecordReader
	limited.Limit = 1000
	if _, err := limited.Part(&pb.ResultPart{Text: make([]byte, 2000)}, g); err == nil {
		t.Error("results over the limit were accepted")
	}
	for _, c := range []struct {
		name, want string
		part       *pb.GroupPart
	}{
		{"no beginning", "missing beginning of group 0", &pb.GroupPart{}},
		{"no example", "no example", &pb.GroupPart{Begin: true, End: true}},
		{
			"a parent that comes later",
			"has parent 3",
			&pb.GroupPart{Begin: true, Examples: []*pb.Example{{Nodes: []*pb.Node{{Parent: 3}}}}},
		},
		{
			"a prompt out of range",
			"prompt 1 of 0",
			&pb.GroupPart{Begin: true, Examples: []*pb.Example{{Candidates: []*pb.Candidate{{Prompt: 1}}}}},
		},
		{
			"more log-probs than a batch has room for",
			"invalid teacher_top_k 2147483647: expected a whole number up to 1000",
			&pb.GroupPart{Begin: true, Examples: []*pb.Example{{TeacherTopK: new(int32(math.MaxInt32))}}},
		},
		{
			"an example that is cut off",
			"unexpected end of group 0 within an example",
			&pb.GroupPart{Begin: true, End: true, Examples: []*pb.Example{{More: true}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r GroupReader
			if _, err := r.Part(c.part); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		})
	}
}

// FuzzGroupReader checks that readers accept any bytes without a panic.
func FuzzGroupReader(f *testing.F) {
	w := NewGroupWriter(func(m *pb.BuildRequest) error {
		b, _ := proto.Marshal(m)
		f.Add(b)
		return nil
	})
	_ = w.Group(1, &ttc.Group{
		Key: "k",
		Examples: []*ttc.Example{{
			ID:         "a",
			Candidates: []ttc.Candidate{{Output: "o", Prompt: ttc.Prompt{Text: "p"}}},
			Graph:      ttc.Chain([]chat.Message{{Role: "user"}}, ttc.Yes),
		}},
	})
	_ = w.Flush()
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.BuildRequest
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r := GroupReader{Limit: 1 << 20}
		for _, p := range m.Parts {
			g, err := r.Part(p)
			if err != nil {
				return
			}
			if g == nil {
				continue
			}
			for _, ex := range g.Examples { // what a reader returns is sound
				for _, leaf := range ex.Graph.Leaves() {
					ex.Graph.Branch(leaf)
				}
			}
			out := sendGroups(t, []*ttc.Group{g})
			if d := cmp.Diff([]*ttc.Group{g}, out, equal); d != "" {
				t.Fatal(d)
			}
		}
	})
}

func FuzzRecordReader(f *testing.F) {
	g := &ttc.Group{
		Key: "k",
		Examples: []*ttc.Example{{
			ID:         "a",
			Candidates: []ttc.Candidate{{Output: "o"}, {Output: "p", Score: 1}},
			Graph:      ttc.Chain([]chat.Message{{Role: "user"}}, ttc.Yes),
		}},
	}
	w := NewRecordWriter(func(m *pb.BuildResponse) error {
		b, _ := proto.Marshal(m)
		f.Add(b)
		return nil
	})
	w.Begin(0, g)
	ref := func(p builders.Part, i int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: p, Candidate: i}}
	}
	_ = w.Record(&builders.Preference{
		Prompt:      ref(builders.CandidatePrompt, 0),
		Chosen:      ref(builders.CandidateOutput, 1),
		Rejected:    ref(builders.CandidateOutput, 0),
		ChosenScore: 1,
	})
	_ = w.Record(&builders.Distillation{Sites: []builders.Site{{Hint: "h"}}})
	_ = w.Drop(ledger.Drop{Reason: "tie"})
	_ = w.Done("", "")
	_ = w.Flush()
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.BuildResponse
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r := RecordReader{Limit: 1 << 20}
		for _, p := range m.Parts {
			res, err := r.Part(p, g)
			if err != nil {
				return
			}
			if res == nil {
				continue
			}
			for _, rec := range res.Records {
				_ = builders.CheckRefs(g, rec)
			}
		}
	})
}

// TestExampleCodec checks that an example stored as bytes comes back unchanged, however large, and that truncated bytes
// are an error.
func TestExampleCodec(t *testing.T) {
	c := NewExampleCodec()
	property.Check(t, func(t *rapid.T) {
		for _, ex := range groups.Draw(t, "group").Examples {
			ex.Recorded = []ttc.History{7, ttc.History(len(ex.ID))}
			ex.Truth = json.Raw(`{"answer": 4}`)
			b, err := c.Append([]byte("before"), ex)
			if err != nil {
				t.Fatal(err)
			}
			b = b[len("before"):]
			got, err := c.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(ex, got, equal); d != "" {
				t.Fatal(d)
			}
			if _, err := c.Decode(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
				t.Fatal("cut-off bytes were decoded")
			}
		}
	})
	big := &ttc.Example{ID: "big", Steps: []ttc.Step{{Type: strings.Repeat("x", 5<<20)}}}
	b, err := c.Append(nil, big)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Decode(b); err != nil || cmp.Diff(big, got, equal) != "" {
		t.Errorf("a large example: %v", err)
	}
}
