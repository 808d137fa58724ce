package teacher

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/nat-go/nat-go/internal/lists"
)

// asker scores sequences with one teacher or several.
type asker interface {
	Check(ctx context.Context) error
	ScoreAll(ctx context.Context, all []Sequence) ([]Result, error)
	topK() int
	clamps() bool    // whether a server treats 0 log-probs per token as 1
	names() []string // names of the teachers, or nil for a single one
}

func (c *Client) topK() int       { return c.o.TopK }
func (c *Client) clamps() bool    { return c.o.Protocol == "atropos" }
func (c *Client) names() []string { return nil }

// Member is one of several teachers.
type Member struct {
	Weight float64 // above 0; weights are relative
	Client *Client // must have a name
}

// Mixture queries several teachers and combines their answers into one distribution, their weighted sum, because a
// batch can hold only one. A teacher that doesn't list a token contributes 0, so the token's probability in the
// mixture is a lower bound, too low by at most that teacher's weight times its smallest listed probability. The
// probability of the actual token is exact if all teachers report it. All teachers must answer, because a mixture of
// fewer teachers would be a different distribution.
type Mixture struct {
	members []Member
	weights []float64 // logarithms of the normalised weights, which add up to 1
}

// NewMixture checks the members.
func NewMixture(members []Member) (*Mixture, error) {
	m := &Mixture{members: members}
	sum := 0.0
	for i, t := range members {
		if t.Client.o.Name == "" ||
			slices.ContainsFunc(members[:i], func(o Member) bool { return o.Client.o.Name == t.Client.o.Name }) {
			return nil, fmt.Errorf("teacher: missing or duplicate name %q: each of several teachers needs its "+
				"own", t.Client.o.Name)
		}
		if !(t.Weight > 0) || math.IsInf(t.Weight, 1) {
			return nil, fmt.Errorf("teacher: invalid weight: %s has %g, expected a number above "+
				"0", t.Client.o.Name, t.Weight)
		}
		if t.Client.o.TopK != members[0].Client.o.TopK {
			return nil, errors.New("teacher: different top_k: all teachers in a mixture must have the same top_k")
		}
		sum += t.Weight
	}
	if len(members) == 0 || math.IsInf(sum, 1) {
		return nil, fmt.Errorf("teacher: invalid weights: %d teachers add up to %g", len(members), sum)
	}
	m.weights = lists.Map(members, func(t Member) float64 { return math.Log(t.Weight / sum) })
	return m, nil
}

func (m *Mixture) topK() int { return m.members[0].Client.o.TopK }

func (m *Mixture) clamps() bool {
	return slices.ContainsFunc(m.members, func(t Member) bool { return t.Client.clamps() })
}

func (m *Mixture) names() []string {
	return lists.Map(m.members, func(t Member) string { return t.Client.o.Name })
}

// Close closes idle connections.
func (m *Mixture) Close() {
	for _, t := range m.members {
		t.Client.Close()
	}
}

// memberError is an error from one of several teachers.
type memberError struct {
	name string
	err  error
}

func (e *memberError) Error() string { return "teacher " + e.name + ": " + e.err.Error() }

// Unwrap returns its cause.
func (e *memberError) Unwrap() error { return e.err }

// Check compares every teacher's vocabulary with the model's.
func (m *Mixture) Check(ctx context.Context) error {
	for _, t := range m.members {
		if err := t.Client.Check(ctx); err != nil {
			return &memberError{t.Client.o.Name, err}
		}
	}
	return nil
}

// ScoreAll has all teachers score the sequences concurrently. A sequence fails if any teacher fails on it.
func (m *Mixture) ScoreAll(ctx context.Context, all []Sequence) ([]Result, error) {
	said := make([][]Result, len(m.members))
	group, ctx := errgroup.WithContext(ctx)
	for i, t := range m.members {
		group.Go(func() (err error) {
			if said[i], err = t.Client.ScoreAll(ctx, all); err != nil {
				return &memberError{t.Client.o.Name, err}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	results := make([]Result, len(all))
	for s := range all {
		results[s] = m.result(&all[s], s, said)
	}
	return results, nil
}

func (m *Mixture) result(s *Sequence, at int, said [][]Result) (r Result) {
	for i, t := range m.members {
		one := &said[i][at]
		if one.Err != nil {
			return Result{Reason: one.Reason, Err: &memberError{t.Client.o.Name, one.Err}}
		}
		r.Each = append(r.Each, one.Scores)
	}
	n := len(s.IDs) - 1
	r.Scores = newScores(n)
	for p := s.From; p < n; p++ {
		top, own := m.position(r.Each, p, s.IDs[p+1])
		r.Scores.Top[p], r.Scores.Token[p] = top[:min(max(1, s.entries(m.topK())), len(top))], own
	}
	return r
}

// position returns the weighted sum of the distributions at position p, and the log-prob of the actual token in that
// sum. The log-prob is NaN if a teacher didn't report the actual token.
func (m *Mixture) position(each []*Scores, p int, token int32) (top []Entry, own float32) {
	mass, stands, unknown := map[int32]float64{}, 0.0, false
	for i, t := range each {
		for _, e := range t.Top[p] {
			mass[e.ID] += math.Exp(m.weights[i] + float64(e.LogProb))
		}
		if lp := float64(t.Token[p]); math.IsNaN(lp) {
			unknown = true
		} else {
			stands += math.Exp(m.weights[i] + lp)
		}
	}
	if _, listed := mass[token]; listed {
		mass[token] = stands // also counts teachers that report the token's log-prob without listing the token
	}
	for id, x := range mass {
		top = append(top, Entry{id, clamped(math.Log(x))})
	}
	slices.SortFunc(top, byLogProb)
	if unknown {
		return top, float32(math.NaN())
	}
	return top, clamped(math.Log(stands))
}

// clamped limits a log-prob to the range [floor, 0]. A NaN becomes math.NaN(), which has the same bits everywhere.
func clamped(lp float64) float32 {
	if math.IsNaN(lp) {
		lp = math.NaN()
	}
	return float32(max(floor, min(0, lp)))
}
