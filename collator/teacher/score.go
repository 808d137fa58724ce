package teacher

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// floor replaces a log-prob of -inf, as in vLLM.
const floor = -9999

// maxAboveOne is the largest amount by which a log-prob may exceed 0 due to rounding.
const maxAboveOne = 1e-3

// Entry is a token and its log-prob.
type Entry struct {
	ID      int32
	LogProb float32
}

// Sequence holds token ids to be scored. Predictions before position From are not needed.
type Sequence struct {
	IDs  []int32
	From int // the first position whose prediction is needed, 0 <= From < len(IDs)-1
	// number of log-probs per position; 0 means the number in the teacher's options, tokenOnly means only the actual
	// token's
	K int
}

// tokenOnly requests only the log-prob of the actual token at each position.
const tokenOnly = -1

// entries returns how many of the most probable tokens to request per position; k is the number in the options.
func (s *Sequence) entries(k int) int {
	switch {
	case s.K == 0:
		return k
	case s.K < 0:
		return 0
	}
	return s.K
}

// Scores are a model's predictions along a sequence: index p predicts the token at p+1. Both fields are empty before
// Sequence.From.
type Scores struct {
	Top   [][]Entry // the k most probable tokens, best first, without duplicates; with tokenOnly, the actual token
	Token []float32 // log-prob of the actual token; NaN if the server didn't report it
}

// newScores returns Scores of n predictions, all of them unknown.
func newScores(n int) *Scores {
	return &Scores{Top: make([][]Entry, n), Token: slices.Repeat([]float32{float32(math.NaN())}, n)}
}

// badAnswer is an unusable response. It is not retried, because the server would send it again.
type badAnswer struct{ why string }

func (e *badAnswer) Error() string { return "the teacher's answer can't be used: " + e.why }

func bad(format string, a ...any) error { return &badAnswer{fmt.Sprintf(format, a...)} }

// raw is one position of a response as the server returned it.
type raw struct {
	entries []Entry
	actual  float64 // log-prob of the actual token, used if entries lacks that token; NaN if unknown
}

// normalise turns predictions for positions s.From to len(s.IDs)-2 into scores.
func normalise(s Sequence, k, vocab int, positions []raw) (*Scores, error) {
	n := len(s.IDs) - 1
	if len(positions) != n-s.From {
		return nil, bad("%d positions for %d tokens to be predicted", len(positions), n-s.From)
	}
	out := newScores(n)
	for i, r := range positions {
		p := s.From + i
		top, err := support(r.entries, vocab)
		if err != nil {
			return nil, bad("position %d: %s", p, err)
		}
		token := r.actual
		if j := slices.IndexFunc(top, func(e Entry) bool { return e.ID == s.IDs[p+1] }); j >= 0 {
			token = float64(top[j].LogProb)
		}
		want := k
		if vocab > 0 {
			want = min(k, vocab)
		}
		if len(top) < want {
			return nil, bad("position %d: got %d entries, expected %d", p, len(top), want)
		}
		out.Top[p] = top[:min(k, len(top))]
		if k == 0 && math.IsNaN(token) {
			return nil, bad("position %d: missing log-prob of the actual token", p)
		}
		if token > maxAboveOne {
			return nil, bad("position %d: invalid log-prob of the actual token: %g", p, token)
		}
		out.Token[p] = clamped(token)
		if k == 0 {
			out.Top[p] = []Entry{{s.IDs[p+1], out.Token[p]}}
		}
	}
	return out, nil
}

// support sorts a position's entries, removes duplicates and rejects anything that is not a log-prob.
func support(entries []Entry, vocab int) ([]Entry, error) {
	out := slices.Clone(entries)
	for i := range out {
		lp := float64(out[i].LogProb)
		switch {
		case out[i].ID < 0 || vocab > 0 && int(out[i].ID) >= vocab:
			return nil, fmt.Errorf("invalid token id %d: the vocabulary has %d", out[i].ID, vocab)
		case math.IsNaN(lp):
			return nil, fmt.Errorf("invalid log-prob of token %d: NaN", out[i].ID)
		case lp > maxAboveOne:
			return nil, fmt.Errorf("invalid log-prob of token %d: got %g, expected 0 or below", out[i].ID, lp)
		}
		out[i].LogProb = max(floor, min(0, out[i].LogProb))
	}
	slices.SortFunc(out,
		func(a, b Entry) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.LogProb, a.LogProb)) })
	mass := 0.0
	unique := out[:0]
	for _, e := range out {
		if n := len(unique); n > 0 && unique[n-1].ID == e.ID {
			if unique[n-1].LogProb != e.LogProb {
				return nil, fmt.Errorf("duplicate token %d with log-probs %g and "+
					"%g", e.ID, unique[n-1].LogProb, e.LogProb)
			}
			continue
		}
		unique = append(unique, e)
		mass += math.Exp(float64(e.LogProb))
	}
	if mass > 1+maxAboveOne*math.Sqrt(float64(len(unique))) {
		return nil, fmt.Errorf("invalid probabilities: they sum to %g", mass)
	}
	slices.SortFunc(unique, byLogProb)
	return unique, nil
}

// byLogProb orders entries by probability, highest first, then by id.
func byLogProb(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.LogProb, a.LogProb), cmp.Compare(a.ID, b.ID))
}
