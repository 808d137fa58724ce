package teacher

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// twoServers returns two models, and a mixture of them weighted three to one.
func twoServers(t *testing.T, change func(*Options)) (a, b *server, m *Mixture) {
	t.Helper()
	a, b = newServer(t), newServer(t)
	b.seed = 1234567
	member := func(s *server, name string, weight float64) Member {
		return Member{weight, s.client(t, func(o *Options) {
			o.Name = name
			if change != nil {
				change(o)
			}
		})}
	}
	m, err := NewMixture([]Member{member(a, "a", 3), member(b, "b", 1)})
	if err != nil {
		t.Fatal(err)
	}
	return a, b, m
}

// mixed is what the mixture should return after a prefix, by id, as far as two lists of the k best can tell. The value
// of the sequence's own token is exact.
func mixed(prefix []int32, token int32, k int) (top map[int]float64, own float64) {
	p, q := model(7, prefix), model(1234567, prefix)
	top = map[int]float64{}
	for _, v := range best(p, k) {
		top[v] += 0.75 * math.Exp(p[v])
	}
	for _, v := range best(q, k) {
		top[v] += 0.25 * math.Exp(q[v])
	}
	own = 0.75*math.Exp(p[token]) + 0.25*math.Exp(q[token])
	if _, ok := top[int(token)]; ok {
		top[int(token)] = own
	}
	return top, math.Log(own)
}

// bothList reports whether a token is among the k best of both models.
func bothList(prefix []int32, token int32, k int) bool {
	return slices.Contains(best(model(7, prefix), k), int(token)) &&
		slices.Contains(best(model(1234567, prefix), k), int(token))
}

// TestMixture checks the weighted sum of what two teachers return, in every protocol: best first, cut to the k best.
func TestMixture(t *testing.T) {
	for _, protocol := range protocolNames() {
		_, _, m := twoServers(t, func(o *Options) {
			o.Protocol, o.Vocabulary.Assume = protocol, true
		})
		if err := m.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		short := sequence
		short.K = 2
		res, err := m.ScoreAll(t.Context(), []Sequence{sequence, short})
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range []int{4, 2} {
			if res[i].Err != nil || len(res[i].Each) != 2 {
				t.Fatalf("%s: %+v", protocol, res[i])
			}
			for p := range sequence.IDs[:len(sequence.IDs)-1] {
				top := res[i].Scores.Top[p]
				if p < sequence.From {
					if top != nil || !math.IsNaN(float64(res[i].Scores.Token[p])) {
						t.Errorf("%s: position %d, before the first that is wanted, has %v", protocol, p, top)
					}
					continue
				}
				want, own := mixed(sequence.IDs[:p+1], sequence.IDs[p+1], k)
				if len(top) != k || !slices.IsSortedFunc(top, byLogProb) {
					t.Errorf("%s: position %d: %v", protocol, p, top)
				}
				for _, e := range top {
					x, listed := want[int(e.ID)]
					// atropos doesn't say how likely a token outside the k best is, so the sequence's own token is
					// treated like the others.
					slack := 1e-6
					if protocol == "atropos" && e.ID == sequence.IDs[p+1] {
						slack = 0.5
					}
					if got := math.Exp(float64(e.LogProb)); !listed || got > x+1e-6 || got < x-slack {
						t.Errorf("%s: position %d: token %d has %g, want %g", protocol, p, e.ID, got, x)
					}
				}
				for id, x := range want { // nothing better was omitted
					if !slices.ContainsFunc(top, func(e Entry) bool { return int(e.ID) == id }) &&
						protocol != "atropos" && math.Log(x) > float64(top[k-1].LogProb)+1e-6 {
						t.Errorf("%s: position %d: token %d with %g is left out", protocol, p, id, x)
					}
				}
				told := protocol != "atropos" || bothList(sequence.IDs[:p+1], sequence.IDs[p+1], k)
				if got := res[i].Scores.Token[p]; math.IsNaN(float64(got)) == told {
					t.Errorf("%s: position %d: the token has %g", protocol, p, got)
				}
				if got := float64(res[i].Scores.Token[p]); protocol != "atropos" && math.Abs(got-own) > 1e-6 {
					t.Errorf("%s: position %d: the token has %g, want %g", protocol, p, got, own)
				}
			}
		}
	}
}

// TestMixtureFails checks that a sequence one of the teachers fails on has failed, under that teacher's name; that a
// second request goes to that teacher alone, and that the other's answer is kept even though both give the model the
// same name.
func TestMixtureFails(t *testing.T) {
	store := t.TempDir()
	a, b, m := twoServers(t, func(o *Options) { o.Store = store })
	b.spoil = func(_ []int32, answer map[string]any) { answer["choices"] = []any{map[string]any{}} }
	res, err := m.ScoreAll(t.Context(), []Sequence{sequence})
	if err != nil || res[0].Reason != TeacherBadAnswer || res[0].Scores != nil ||
		!strings.HasPrefix(res[0].Err.Error(), "teacher b: ") {
		t.Fatalf("%+v, %v", res, err)
	}
	rep := &Asked{}
	rep.fail(res[0].Reason, res[0].Err)
	if rep.By["b"] != 1 || len(rep.By) != 1 {
		t.Errorf("failed by %v", rep.By)
	}
	b.spoil = nil
	asked := [2]int64{a.calls.Load(), b.calls.Load()}
	res, err = m.ScoreAll(t.Context(), []Sequence{sequence})
	if err != nil || res[0].Err != nil || a.calls.Load() != asked[0] || b.calls.Load() != asked[1]+1 {
		t.Fatalf("%+v, %v; %d and %d requests more", res, err, a.calls.Load()-asked[0], b.calls.Load()-asked[1])
	}
	want, _ := mixed(sequence.IDs[:3], sequence.IDs[3], 4)
	if got := res[0].Scores.Top[2][0]; math.Abs(math.Exp(float64(got.LogProb))-want[int(got.ID)]) > 1e-6 {
		t.Errorf("got %v, want %v", got, want)
	}
	// A teacher with a different vocabulary, or whose key is refused, ends the work, and the error names it.
	b.tokens = func(string) []int32 { return []int32{1} }
	if err := m.Check(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "teacher b: ") {
		t.Errorf("%v", err)
	}
}

func TestNewMixtureRefuses(t *testing.T) {
	s := newServer(t)
	named := func(name string, k int) *Client {
		return s.client(t, func(o *Options) { o.Name, o.TopK = name, k })
	}
	for _, c := range []struct {
		members []Member
		want    string
	}{
		{nil, "0 teachers"},
		{[]Member{{1, named("", 4)}}, "name"},
		{[]Member{{1, named("a", 4)}, {1, named("a", 4)}}, `"a"`},
		{[]Member{{0, named("a", 4)}}, "teacher: invalid weight: a has 0, expected a number above 0"},
		{[]Member{{math.NaN(), named("a", 4)}}, "teacher: invalid weight: a has NaN, expected a number above 0"},
		{[]Member{{math.Inf(1), named("a", 4)}}, "teacher: invalid weight: a has +Inf, expected a number above 0"},
		{[]Member{{math.MaxFloat64, named("a", 4)}, {math.MaxFloat64, named("b", 4)}}, "add up to +Inf"},
		{[]Member{{1, named("a", 4)}, {1, named("b", 5)}}, "teacher: different top_k: all teachers in a mixture must have the same top_k"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if _, err := NewMixture(c.members); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: want %q", err, c.want)
			}
		})
	}
}

// TestTokenOnly checks answers without a list, with the log-prob of each token of the sequence, in every protocol.
func TestTokenOnly(t *testing.T) {
	for _, protocol := range protocolNames() {
		s := newServer(t)
		if protocol == "atropos" { // what a vLLM behind it returns: the token itself, if asked for 0 others
			s.spoil = func(ids []int32, answer map[string]any) {
				lps, tokens := []any{[]any{}}, []any{[]any{}}
				for i := 1; i < len(ids); i++ {
					lps, tokens = append(lps, []any{predict(ids[:i])[ids[i]]}), append(tokens, []any{ids[i]})
				}
				answer["prompt_topk_logprobs"], answer["prompt_topk_token_ids"] = lps, tokens
			}
		}
		c := s.client(t, func(o *Options) { o.Protocol, o.Vocabulary.Assume = protocol, true })
		q := sequence
		q.K = tokenOnly
		scores, err := c.Score(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", protocol, err)
			continue
		}
		for p := q.From; p < len(q.IDs)-1; p++ {
			want := predict(q.IDs[:p+1])[q.IDs[p+1]]
			if top := scores.Top[p]; len(top) != 1 || top[0].ID != q.IDs[p+1] ||
				math.Abs(float64(top[0].LogProb)-want) > 1e-6 {
				t.Errorf("%s: position %d: got %v, want token %d, %g", protocol, p, top, q.IDs[p+1], want)
			}
		}
		if protocol == "atropos" {
			s.spoil = nil // asked for 0, it returns nothing
			q.From = 0
			if _, err := c.Score(t.Context(), q); err == nil ||
				!strings.Contains(err.Error(), "missing log-prob of the actual token") {
				t.Errorf("%s: %v", protocol, err)
			}
		}
	}
}
