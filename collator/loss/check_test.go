package loss

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/internal/tensors"
)

// opened is an open file of tensors.
func opened(t *testing.T, list ...tensors.Tensor) *tensors.File {
	t.Helper()
	var b bytes.Buffer
	if err := tensors.Write(&b, list, nil); err != nil {
		t.Fatal(err)
	}
	f, err := tensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// script is a batch of two rows for sft, with logits and the terms of a correct script: those of T tokens; a row's
// first token is never trained.
type script struct {
	ids, labels []int64
	logits      []float32
	terms       []float64
}

const (
	scriptRows, scriptTokens, scriptWords = 2, 5, 7
	untrained                             = 3 // token of row 0 that the batch omits
)

func newScript() *script {
	r := rand.New(rand.NewPCG(3, 4))
	n := scriptRows * scriptTokens
	s := &script{terms: make([]float64, n)}
	for range n {
		s.ids = append(s.ids, r.Int64N(scriptWords))
	}
	for range n * scriptWords {
		s.logits = append(s.logits, float32(r.NormFloat64()))
	}
	s.labels = append(s.labels, s.ids...)
	s.labels[untrained] = -100
	for row := range scriptRows {
		s.labels[row*scriptTokens] = -100
		for at := 1; at < scriptTokens; at++ {
			if i := row*scriptTokens + at; s.labels[i] >= 0 {
				s.terms[i] = s.term(i, i-1)
			}
		}
	}
	return s
}

// term returns -log p of token i, from the logits at a position.
func (s *script) term(i, place int) float64 {
	logits := s.logits[place*scriptWords : (place+1)*scriptWords]
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	return math.Log(sum) - float64(logits[s.ids[i]])
}

func (s *script) check(t *testing.T) (*Report, error) {
	t.Helper()
	file := opened(t, tensors.Of("input_ids", s.ids, scriptRows, scriptTokens),
		tensors.Of("labels", s.labels, scriptRows, scriptTokens))
	logits := opened(t, tensors.Of("logits", s.logits, scriptRows, scriptTokens, scriptWords),
		tensors.Of("yours.token_losses", s.terms, scriptRows, scriptTokens))
	return Check(file, logits, Options{}, 1e-4)
}

// mistakes are a script's possible mistakes, with what the check says about each.
var mistakes = map[string]struct {
	spoil func(*script)
	want  []Difference // without numbers
	cause string
}{
	"a correct script": {spoil: func(*script) {}},
	"one token too many": {
		spoil: func(s *script) { s.terms[untrained] = s.term(untrained, untrained-1) },
		want: []Difference{{
			Term: "token_losses", Token: untrained, Why: "the script trains the token, but the batch does not",
		}},
	},
	"one token too few": {
		spoil: func(s *script) { s.terms[scriptTokens+2] = 0 },
		want: []Difference{{
			Term: "token_losses", Row: 1, Token: 2, Why: "the batch trains the token, but the script does not",
		}},
	},
	"one wrong term": {
		spoil: func(s *script) { s.terms[1] += 0.01 },
		want:  []Difference{{Term: "token_losses", Token: 1, Why: "the term differs"}},
	},
	"not shifted": {
		spoil: func(s *script) {
			for i := range s.terms {
				if s.labels[i] >= 0 {
					s.terms[i] = s.term(i, i)
				}
			}
		},
		cause: "the logits are not shifted",
	},
}

// TestCheck checks that each mistake is found at its token, and that its likely causes are named.
func TestCheck(t *testing.T) {
	for name, c := range mistakes {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			c.spoil(s)
			report, err := s.check(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"token_losses"}, report.Compared); diff != "" {
				t.Error(diff)
			}
			if c.cause != "" {
				if !strings.Contains(strings.Join(report.Causes, "\n"), c.cause) {
					t.Errorf("%q is not among the causes %q", c.cause, report.Causes)
				}
				return
			}
			got := []Difference{}
			for _, d := range report.Differences {
				if d.ID != s.ids[d.Row*scriptTokens+d.Token] {
					t.Errorf("the token's id is %d", d.ID)
				}
				d.Yours, d.Ours, d.ID = 0, 0, 0
				got = append(got, d)
			}
			if diff := cmp.Diff(append([]Difference{}, c.want...), got); diff != "" || report.Differ != len(c.want) {
				t.Errorf("%d differ: %s", report.Differ, diff)
			}
		})
	}
}

func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*script)
		want  string
	}{
		"another label": {
			spoil: func(s *script) { s.labels[1] = (s.ids[1] + 1) % scriptWords },
			want:  "labels are token-aligned",
		},
		"an id beyond the vocabulary": {
			spoil: func(s *script) { s.ids[1], s.labels[1] = scriptWords, scriptWords },
			want:  "token 1 has id 7, but the vocabulary size is 7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript()
			c.spoil(s)
			_, err := s.check(t)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
