package teacher

import (
	"math"
	"slices"
)

// rounding is the maximum error, in nats, of a divergence computed from float32 log-probs.
const rounding = 1e-6

// bracket bounds the JSD (beta 0.5) of two distributions over one vocabulary when only their most probable tokens are
// known. Tokens known on both sides count exactly. The rest of either side - its tail and tokens listed only by the
// other - is distributed in an unknown way over the other tokens:
//
//   - treating the rest as a single token can only reduce the divergence, which gives the lower bound;
//   - no token contributes more than ln 2 / 2 times the sum of its two probabilities, which gives the upper bound. A
//     token with a probability on only one side contributes exactly that much.
//
// The actual token is known on both sides if the server reports its log-prob alongside the k best.
func bracket(student, teacher []Entry) (lower, upper float64) {
	q := make(map[int32]float64, len(student))
	for _, e := range student {
		q[e.ID] = math.Exp(float64(e.LogProb))
	}
	known, tailQ, tailP := 0.0, 1.0, 1.0
	for _, e := range teacher {
		if x, ok := q[e.ID]; ok {
			y := math.Exp(float64(e.LogProb))
			known += half(x, y)
			tailQ, tailP = tailQ-x, tailP-y
		}
	}
	tailQ, tailP = max(0, tailQ), max(0, tailP)
	lower = known + half(tailQ, tailP)
	upper = known + math.Ln2/2*(tailQ+tailP)
	return max(0, lower-rounding), min(math.Ln2, upper+rounding)
}

// half returns the contribution to the JSD of a token that has the probabilities x and y.
func half(x, y float64) float64 {
	m := (x + y) / 2
	sum := 0.0
	for _, v := range [2]float64{x, y} {
		if v > 0 {
			sum += v * math.Log(v/m)
		}
	}
	return max(0, sum/2)
}

// known returns the entries at a position, including the actual token if it is not among the most probable ones.
func (s *Scores) known(at int, token int32) []Entry {
	top := s.Top[at]
	lp := s.Token[at]
	if math.IsNaN(float64(lp)) || slices.ContainsFunc(top, func(e Entry) bool { return e.ID == token }) {
		return top
	}
	return append(top[:len(top):len(top)], Entry{token, lp})
}
