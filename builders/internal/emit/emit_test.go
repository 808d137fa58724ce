package emit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// full fails after a number of results.
type full struct{ left, n int }

var errFull = errors.New("full")

func (f *full) take() error {
	if f.n++; f.n > f.left {
		return errFull
	}
	return nil
}

func (f *full) Record(builders.Record) error { return f.take() }
func (f *full) Drop(ledger.Drop) error       { return f.take() }
func (f *full) Count(string, int64) error    { return f.take() }

// TestFirstError checks that an output keeps the first error, and passes nothing on after it.
func TestFirstError(t *testing.T) {
	to := &full{left: 2}
	out := &Output{To: to}
	out.Count("none", 0)
	out.Count("one", 1)
	if out.Drop(ledger.Drop{}); out.Over(t.Context()) {
		t.Fatalf("over after %d results: %v", to.n, out.Err)
	}
	out.Record(&builders.State{})
	out.Record(&builders.State{})
	out.Fail(context.Canceled)
	if !out.Over(t.Context()) || !errors.Is(out.Err, errFull) || to.n != 3 {
		t.Errorf("%v after %d results", out.Err, to.n)
	}
}

// TestCancelled checks that a build whose context is done is over, and keeps the context's error.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := (&Output{To: &full{left: 9}}); !out.Over(ctx) || !errors.Is(out.Err, context.Canceled) {
		t.Errorf("not over: %v", out.Err)
	}
}

// TestUnusable checks that the checks before pairing apply to single answers, too, and that an answer at the end of a
// prompt that all candidates share is kept, because it may be a choice.
func TestUnusable(t *testing.T) {
	text := func(s string) ttc.Prompt { return ttc.Prompt{Text: s} }
	all := []ttc.Candidate{
		{Output: "a"},
		{Output: "a", ScoreError: "e"},
		{Output: " "},
		{Output: "a", Prompt: ttc.Prompt{Form: ttc.OtherPrompt}},
		{Output: "a", Prompt: text("[{'role': 'user', 'content': 'hi'}]")},
		{Output: "a", Prompt: text("q\nassistant: a")},
		{Output: "no", Prompt: text("yes or no")},
		{Output: "3", Prompt: text("2 + 1 is 3"), Turn: "appended"},
		{Output: "4", Prompt: text("2 + 1 is"), Turn: "appended"},
		{Output: "3", Prompt: text("q: 3"), Step: "other"},
	}
	for i := range all[:7] {
		all[i].Turn = fmt.Sprint(i)
	}
	want := []ledger.Reason{
		"", pairs.FailedScorer, ledger.EmptyResponse, pairs.ReprPrompt, pairs.ReprPrompt, pairs.AnswerInPrompt, "",
		pairs.AnswerInPrompt, "", "",
	}
	if got := Unusable(&ttc.Example{Candidates: all}, "", "drop"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want[5], want[7] = "", ""
	if got := Unusable(&ttc.Example{Candidates: all}, "", "keep"); !slices.Equal(got, want) {
		t.Errorf("kept: got %q, want %q", got, want)
	}
}

func TestFinite(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if Finite(x) {
			t.Errorf("%v is finite", x)
		}
	}
	if !Finite(-0.5) {
		t.Error("-0.5 isn't finite")
	}
}

// TestBrief checks that a text isn't cut within a character.
func TestBrief(t *testing.T) {
	if got := Brief("aé", 2); got != "a..." {
		t.Errorf("got %q", got)
	}
	if got := Brief("aé", 3); got != "aé" {
		t.Errorf("got %q", got)
	}
}
