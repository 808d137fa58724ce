package teacher

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

const vocab = 12

// predict is the toy model: it returns log-probs of what follows a prefix.
func predict(prefix []int32) []float64 { return model(7, prefix) }

// model is a toy model with its own seed.
func model(seed uint32, prefix []int32) []float64 {
	for _, id := range prefix {
		seed = seed*31 + uint32(id)
	}
	lp := make([]float64, vocab)
	sum := 0.0
	for v := range lp {
		seed = seed*1664525 + 1013904223
		lp[v] = float64(seed>>16) / 16384
		sum += math.Exp(lp[v])
	}
	for v := range lp {
		lp[v] -= math.Log(sum)
	}
	return lp
}

func best(lp []float64, k int) []int {
	ids := make([]int, len(lp))
	for i := range ids {
		ids[i] = i
	}
	slices.SortFunc(ids, func(a, b int) int {
		if lp[a] > lp[b] {
			return -1
		}
		return 1
	})
	return ids[:k]
}

// server answers like real servers do, in all their formats. Hooks corrupt its answers.
type server struct {
	*httptest.Server
	calls  atomic.Int64
	before func(call int64, w http.ResponseWriter, r *http.Request) bool // true: answered
	spoil  func(ids []int32, answer map[string]any)
	tokens func(text string) []int32
	seed   uint32 // of its model
}

func newServer(t *testing.T) *server {
	s := &server{tokens: letters, seed: 7}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

// letters is the toy tokenizer: one letter per token.
func letters(text string) (ids []int32) {
	for _, c := range text {
		ids = append(ids, c%vocab)
	}
	return ids
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	call := s.calls.Add(1)
	if s.before != nil && s.before(call, w, r) {
		return
	}
	var q struct {
		Prompt       json.RawMessage `json:"prompt"`
		K            int             `json:"prompt_logprobs"`
		Sequences    [][]int32       `json:"sequences"`
		Lengths      []int           `json:"prompt_lengths"`
		TopLogprobs  int             `json:"top_logprobs"`
		InputIDs     []int32         `json:"input_ids"`
		TopLogprobsN int             `json:"top_logprobs_num"`
		TopK         int             `json:"top_k"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	var ids []int32
	answer := map[string]any{}
	switch r.URL.Path {
	case "/tokenize":
		var text string
		json.Unmarshal(q.Prompt, &text)
		answer["tokens"] = s.tokens(text)
	case "/v1/completions":
		json.Unmarshal(q.Prompt, &ids)
		list := []any{nil}
		for i := 1; i < len(ids); i++ {
			lp := model(s.seed, ids[:i])
			at := map[string]any{}
			for _, v := range append(best(lp, q.K), int(ids[i])) { // k or k+1 entries
				at[fmt.Sprint(v)] = map[string]any{"logprob": lp[v], "rank": 1, "decoded_token": "x"}
			}
			list = append(list, at)
		}
		answer["choices"] = []any{map[string]any{"prompt_logprobs": list}}
	case "/get_sequence_logprobs/":
		ids = q.Sequences[0]
		var lps, tokens, actual []any
		for i := q.Lengths[0]; i < len(ids); i++ {
			lp := model(s.seed, ids[:i])
			var a, b []any
			for _, v := range best(lp, q.TopLogprobs) {
				a, b = append(a, lp[v]), append(b, v)
			}
			lps, tokens, actual = append(lps, a), append(tokens, b), append(actual, lp[ids[i]])
		}
		answer["logprobs"], answer["logprob_token_ids"], answer["actual_logprobs"] = []any{
			lps,
		}, []any{
			tokens,
		}, []any{
			actual,
		}
	case "/generate":
		ids = q.InputIDs
		top, own := []any{nil}, []any{[]any{nil, ids[0], nil}}
		for i := 1; i < len(ids); i++ {
			lp := model(s.seed, ids[:i])
			var at []any
			for _, v := range best(lp, q.TopLogprobsN) {
				at = append(at, []any{lp[v], v, nil})
			}
			top, own = append(top, at), append(own, []any{lp[ids[i]], ids[i], nil})
		}
		answer["meta_info"] = map[string]any{"input_top_logprobs": top, "input_token_logprobs": own}
	case "/get_logprobs":
		ids = q.InputIDs
		lps, tokens := []any{[]any{}}, []any{[]any{}}
		for i := 1; i < len(ids); i++ {
			lp := model(s.seed, ids[:i])
			var a, b []any
			for _, v := range best(lp, q.TopK) {
				a, b = append(a, lp[v]), append(b, v)
			}
			lps, tokens = append(lps, a), append(tokens, b)
		}
		answer["prompt_topk_logprobs"], answer["prompt_topk_token_ids"] = lps, tokens
	default:
		http.NotFound(w, r)
		return
	}
	if s.spoil != nil {
		s.spoil(ids, answer)
	}
	json.NewEncoder(w).Encode(answer)
}

func (s *server) client(t *testing.T, change func(*Options)) *Client {
	t.Helper()
	o := Options{
		Endpoint:    s.URL,
		Model:       "m",
		APIKey:      "sekret",
		TopK:        4,
		Concurrency: 3,
		Backoff:     time.Microsecond,
		Timeout:     10 * time.Second,
		Vocabulary:  Vocabulary{Fingerprint: "f", Size: vocab, Probes: []Probe{{Text: "hello", IDs: letters("hello")}}},
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
