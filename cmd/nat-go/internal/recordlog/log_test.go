package recordlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func sample(t testing.TB, key string) *Group {
	t.Helper()
	yes, reward := true, 0.5
	ex := &ttc.Example{
		ID:          key,
		Task:        "t",
		Run:         1,
		Row:         7,
		File:        "in.json",
		Offset:      99,
		Policy:      "m",
		Fidelity:    ttc.IDs,
		Gaps:        ttc.ParsedArguments | ttc.RebuiltHistory | ttc.IDsDiffer,
		Proofs:      ttc.PromptProven,
		Sampling:    &ttc.Sampling{Temperature: 1, TopP: 0.9, Processed: true},
		TeacherTopK: new(-1),
		Truth:       json.Raw(`"4"`),
		Tools:       []chat.Tool{{Name: "f", Raw: json.Raw(`{"name":"f"}`)}},
		Candidates: []ttc.Candidate{
			{Prompt: ttc.Prompt{Text: "p"}, Output: "good \xed\xa0\xbd"}, {
				Prompt: ttc.Prompt{Text: "p"},
				Output: "bad",
			},
		},
		Graph: ttc.Graph{Nodes: []ttc.Node{
			{Parent: -1, Message: chat.Message{Role: "user", Form: chat.Parts, Parts: []chat.Part{{Type: "text", Text: "q", Raw: json.Raw(`{}`)}}}},
			{
				Parent:       0,
				Sampled:      ttc.Yes,
				Policy:       "n",
				TokenIDs:     []int32{1, -1},
				LogProbs:     []float32{-0.5, 0},
				FinishReason: "stop",
				Message: chat.Message{
					Role: "assistant", Form: chat.Null, Reasoning: "r", ReasoningKey: "thinking",
					ToolCalls: []chat.ToolCall{{
						ID:        "1",
						Type:      "function",
						Name:      "f",
						Arguments: "{",
						AsObject:  true,
						Extra:     []chat.Member{{Key: "k", Value: json.Raw("1")}},
					}},
				},
			},
			{
				Parent: 1,
				Error:  &yes,
				Message: chat.Message{
					Role:       "tool",
					Form:       chat.Text,
					Text:       "e",
					Name:       "f",
					ToolCallID: "1",
					Extra:      []chat.Member{{Key: "x", Value: json.Raw("null")}},
				},
			},
		}},
	}
	b := NewBuilder([]string{"moves", "hints"})
	b.Begin(&ttc.Group{Key: key, Examples: []*ttc.Example{ex}})
	ref := func(p builders.Part, c int) builders.Content {
		return builders.Content{Ref: builders.Ref{Part: p, Candidate: c}}
	}
	walk := builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Last: 2}}
	for _, r := range []builders.Record{
		&builders.Preference{
			Head:           builders.Head{Turn: "1", Metadata: json.Raw(`{"a":1}`), Edits: builders.FailedCallsRemoved},
			Prompt:         ref(builders.CandidatePrompt, 0),
			Chosen:         ref(builders.CandidateOutput, 0),
			Rejected:       ref(builders.CandidateOutput, 1),
			Reward:         1,
			ScoreName:      "s",
			ChosenScore:    2,
			RejectedScore:  1,
			ChosenIndex:    3,
			RejectedIndex:  -4,
			ChosenPolicy:   "a",
			RejectedPolicy: "b",
		},
		&builders.Preference{
			Head:      builders.Head{Turn: "1"},
			Prompt:    ref(builders.CandidatePrompt, 1),
			Chosen:    ref(builders.CandidateOutput, 1),
			Rejected:  ref(builders.CandidateOutput, 0),
			ScoreName: "s",
		},
		&builders.Preference{
			Head:      builders.Head{Turn: "2"},
			Prompt:    ref(builders.CandidatePrompt, 1),
			Chosen:    ref(builders.CandidateOutput, 1),
			Rejected:  ref(builders.CandidateOutput, 0),
			ScoreName: "other",
		},
		&builders.Demonstration{
			Messages: walk,
			Train:    builders.TrainFlagged,
			Trained:  []bool{false, true, false},
			Weight:   1,
			Score:    &reward,
		},
		&builders.Rollout{Messages: walk, Reward: &reward, Task: "t"},
		&builders.Distillation{Messages: walk, Sites: []builders.Site{{
			Call: 1, Result: 2, Tool: "f", Error: "tool_error", Hint: "h",
			HintSource: "rules", HintKind: builders.Hindsight, Target: builders.NextTurn,
		}}},
		&builders.Demonstration{Messages: walk, Train: builders.TrainCalls, Weight: 1, MaskReasoning: true},
	} {
		if err := b.Record(1, r); err != nil {
			t.Fatal(err)
		}
	}
	b.Drop(ledger.Drop{Stage: ledger.Build, Reason: pairs.Tie, Unit: "candidate", Example: key})
	b.Account(ledger.Build, "candidate", 3, 2)
	b.Count(1, "total_turns", 4)
	return b.Group()
}

func write(t testing.TB, dir string, keys ...string) {
	t.Helper()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, k := range keys {
		if err := w.Append(sample(t, k)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit([]byte(`{"row":2}`), true); err != nil {
		t.Fatal(err)
	}
}

func TestLogReturnsWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a", "b")
	r, err := newReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, key := range []string{"a", "b"} {
		got, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		want := sample(t, key)
		if got.First != uint64(i*len(want.Records)) {
			t.Errorf("group %q begins at record %d, want %d", key, got.First, i*len(want.Records))
		}
		for _, p := range []struct{ got, want any }{
			{got.Key, want.Key},
			{got.Records, want.Records},
			{got.Drops, want.Drops},
			{got.Accounts, want.Accounts},
			{got.Counts, want.Counts},
		} {
			if d := cmp.Diff(p.want, p.got); d != "" {
				t.Errorf("group %q (-want +got):\n%s", key, d)
			}
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last group: %v", err)
	}
}

func TestEqualTextsAreKeptOnce(t *testing.T) {
	if n := len(sample(t, "a").texts); n != 4 { // prompt, two outputs, one walk
		t.Errorf("%d texts, want 4", n)
	}
}

func TestEqualRolloutsOfTwoTrialsAreTwoSamples(t *testing.T) {
	var examples []*ttc.Example
	for row, trial := range []string{"a", "b"} {
		examples = append(examples, &ttc.Example{
			ID:    "e",
			Trial: trial,
			Row:   int64(row),
			Graph: ttc.Chain([]chat.Message{{Role: "user", Form: chat.Text, Text: "q"}}, ttc.Yes),
		})
	}
	b := NewBuilder([]string{"x"})
	b.Begin(&ttc.Group{Key: "g", Examples: examples})
	for i := range examples {
		if err := b.Record(0, &builders.Rollout{
			Head:     builders.Head{Example: i},
			Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: i}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if h := b.Group().Hashes(); h[0].Content == h[1].Content {
		t.Error("two trials that said the same count as one rollout")
	}
}

// TestEqualRolloutsOfAnExampleAreSeparateSamples checks that equal answers to one prompt aren't duplicates, also after
// the log is read back, and that two builders which take the same answers take the same samples.
func TestEqualRolloutsOfAnExampleAreSeparateSamples(t *testing.T) {
	b := NewBuilder([]string{"x", "y"})
	b.Begin(&ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "e"}}})
	const answers = 3
	for builder := range 2 {
		for range answers {
			if err := b.Record(builder, &builders.Rollout{Messages: builders.Content{
				Ref:      builders.Ref{Part: builders.InlineMessages},
				Messages: []chat.Message{{Role: "assistant", Form: chat.Text, Text: "4"}},
			}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var e codec
	var back Group
	if err := e.group(b.Group()); err != nil {
		t.Fatal(err)
	}
	if err := back.decode(e.Buf, Large{usualFrame, usualLists}); err != nil {
		t.Fatal(err)
	}
	contents := b.Group().Contents()
	distinct := map[Hash]bool{}
	for i, h := range contents[:answers] {
		distinct[h] = true
		if contents[answers+i] != h {
			t.Errorf("answer %d: two builders' records are separate samples", i)
		}
	}
	if len(distinct) != answers {
		t.Errorf("%d equal answers count as %d", answers, len(distinct))
	}
	if again := back.Contents(); !slices.Equal(again, contents) {
		t.Errorf("contents differ after the log is read back: %x, %x", again, contents)
	}
}

func TestBadReferenceAddsNothing(t *testing.T) {
	b := NewBuilder([]string{"x"})
	b.Begin(&ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}}})
	err := b.Record(0,
		&builders.Preference{Prompt: builders.Content{Ref: builders.Ref{Part: builders.CandidatePrompt, Candidate: 3}}})
	if err == nil || len(b.Group().Records) != 0 {
		t.Errorf("err %v, %d records", err, len(b.Group().Records))
	}
}

func TestOpenCutsBackToTheCommit(t *testing.T) {
	dir, whole := t.TempDir(), t.TempDir()
	write(t, whole, "a", "b")
	write(t, dir, "a")
	path := filepath.Join(dir, LogName)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("half a frame")
	f.Close()
	w, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(sample(t, "b")); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit([]byte(`{"row":2}`), true); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, name := range []string{LogName, CommitName} {
		t.Run(name, func(t *testing.T) {
			a, _ := os.ReadFile(filepath.Join(dir, name))
			b, _ := os.ReadFile(filepath.Join(whole, name))
			if string(a) != string(b) {
				t.Errorf("%s differs from that of an undisturbed run", name)
			}
		})
	}
}

func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a")
	path := filepath.Join(dir, LogName)
	good, _ := os.ReadFile(path)
	for i := HeaderSize; i < len(good); i += 7 {
		bad := append([]byte(nil), good...)
		bad[i] ^= 0x10
		os.WriteFile(path, bad, 0o600)
		r, err := newReader(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Next(); err == nil {
			t.Errorf("a flipped bit at byte %d went unnoticed", i)
		}
		r.Close()
	}
}

func FuzzDecodeGroup(f *testing.F) {
	var e codec
	if err := e.group(sample(f, "a")); err != nil {
		f.Fatal(err)
	}
	f.Add(e.Buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		g := new(Group)
		if g.decode(b, Large{usualFrame, usualLists}) != nil {
			return
		}
		g.Hashes()
		g.Contents()
		var again codec
		if err := again.group(g); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTruncatedGroup checks that a truncated frame is an error, wherever it ends.
func TestTruncatedGroup(t *testing.T) {
	var e codec
	if err := e.group(sample(t, "a")); err != nil {
		t.Fatal(err)
	}
	for n := range e.Buf {
		if err := new(Group).decode(bytes.Clone(e.Buf[:n]), Large{usualFrame, usualLists}); err == nil {
			t.Errorf("%d of %d bytes are a group", n, len(e.Buf))
		}
	}
	d, s := coder.Reader([]byte{9, 1, 2, 3}, nil), ""
	if d.String(&s); d.Err == nil || d.Next() != 0 || d.Left() != 0 {
		t.Errorf("after a text that is too long, %d bytes are left: %v", d.Left(), d.Err)
	}
}

// TestReusedGroup checks that a group doesn't keep any values from the group whose memory it reuses.
func TestReusedGroup(t *testing.T) {
	var pair, rollout codec
	g := sample(t, "a")
	if err := pair.group(g); err != nil {
		t.Fatal(err)
	}
	g.Records, g.sides = g.Records[4:5], g.sides[4:5]
	if err := rollout.group(g); err != nil {
		t.Fatal(err)
	}
	var reused Group
	for _, e := range []codec{pair, rollout} {
		if err := reused.decode(e.Buf, Large{usualFrame, usualLists}); err != nil {
			t.Fatal(err)
		}
	}
	r := reused.Records[0]
	if len(reused.Records) != 1 || r.Messages.Nodes == nil || r.Prompt.Text+r.Chosen.Text+r.Rejected.Text != "" {
		t.Errorf("%d records, the first with prompt %q, chosen %q and rejected %q",
			len(reused.Records), r.Prompt.Text, r.Chosen.Text, r.Rejected.Text)
	}
}

// TestCreate checks that Create replaces a log without a commit, and returns an error if it can't replace the log.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, LogName)
	if err := os.WriteFile(path, make([]byte, 1<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := Create(dir)
	if err == nil {
		err = errors.Join(w.Commit(nil, true), w.Close())
	}
	if info, statErr := os.Stat(path); err != nil || statErr != nil || info.Size() != int64(HeaderSize) {
		t.Errorf("%v, %v, %v", err, statErr, info)
	}
	if err := errors.Join(os.Remove(path), os.MkdirAll(filepath.Join(path, "in the way"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir); err == nil {
		t.Error("a log that can't be removed gave no error")
	}
}

// TestForgedLists checks that a frame whose lists would take far more memory than the frame is rejected before the
// memory is allocated.
func TestForgedLists(t *testing.T) {
	const n = 4 << 20
	frame := binary.AppendUvarint([]byte{0}, n) // no key, origins
	frame = append(frame, make([]byte, n)...)
	if err := new(Group).decode(frame, Large{usualFrame, usualLists}); !errors.Is(err, coder.ErrLists) {
		t.Errorf("origins: %v", err)
	}
	nodes := append(binary.AppendUvarint([]byte{1}, n), make([]byte, n)...) // of a text
	frame = binary.AppendUvarint([]byte{0, 0, 1}, uint64(len(nodes)))
	err := new(Group).decode(append(frame, nodes...), Large{usualFrame, usualLists})
	if !errors.Is(err, coder.ErrLists) {
		t.Errorf("nodes: %v", err)
	}
}

// TestRoomForLists checks that a group of very many short records can be read back, because its lists take no more
// memory than a frame of its size may.
func TestRoomForLists(t *testing.T) {
	const n = 20_000
	answers := []ttc.Candidate{{Output: "a"}, {Output: "b"}}
	b := NewBuilder([]string{"pairs"})
	b.Begin(&ttc.Group{Key: "k", Examples: []*ttc.Example{{ID: "e", Candidates: answers}}})
	for range n {
		ref := func(c int) builders.Content {
			return builders.Content{Ref: builders.Ref{Part: builders.CandidateOutput, Candidate: c}}
		}
		prompt := builders.Content{Ref: builders.Ref{Part: builders.CandidatePrompt}}
		if err := b.Record(0, &builders.Preference{Prompt: prompt, Chosen: ref(0), Rejected: ref(1)}); err != nil {
			t.Fatal(err)
		}
	}
	var e codec
	if err := e.group(b.Group()); err != nil {
		t.Fatal(err)
	}
	room := int64(roomPerByte * len(e.Buf))
	var got Group
	if err := (&codec{Coder: coder.Reader(e.Buf, &room)}).group(&got); err != nil || len(got.Records) != n {
		t.Errorf("%d records in %d bytes: %v", len(got.Records), len(e.Buf), err)
	}
}
