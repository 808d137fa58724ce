package teacher

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc/ledger"
)

var sequence = Sequence{IDs: []int32{3, 1, 4, 1, 5, 9, 2, 6}, From: 2}

func wantScores(t *testing.T, c *Client, got *Scores, s Sequence, tokens bool) {
	t.Helper()
	for p := range len(s.IDs) - 1 {
		if p < s.From {
			if got.Top[p] != nil || !math.IsNaN(float64(got.Token[p])) {
				t.Errorf("position %d is scored, %d is the first asked for", p, s.From)
			}
			continue
		}
		lp := predict(s.IDs[:p+1])
		if len(got.Top[p]) != c.o.TopK {
			t.Fatalf("position %d has %d entries", p, len(got.Top[p]))
		}
		for i, v := range best(lp, c.o.TopK) {
			if e := got.Top[p][i]; e.ID != int32(v) || math.Abs(float64(e.LogProb)-lp[v]) > 1e-6 {
				t.Errorf("position %d entry %d: got %v, want %d at %g", p, i, e, v, lp[v])
			}
		}
		if tok := float64(got.Token[p]); tokens && math.Abs(tok-lp[s.IDs[p+1]]) > 1e-6 {
			t.Errorf("position %d: its token has %g, want %g", p, tok, lp[s.IDs[p+1]])
		}
	}
}

// TestShapes checks that all servers yield the same scores.
func TestShapes(t *testing.T) {
	s := newServer(t)
	for _, name := range protocolNames() {
		t.Run(name, func(t *testing.T) {
			c := s.client(t, func(o *Options) { o.Protocol = name })
			got, err := c.Score(t.Context(), sequence)
			if err != nil {
				t.Fatal(err)
			}
			wantScores(t, c, got, sequence, name != "atropos") // which has only the top k
		})
	}
}

func TestSGLangBatchesAndTRLNesting(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/generate" {
			return false
		}
		io.WriteString(
			w,
			`[{"meta_info":{"input_top_logprobs":[null,[[-0.1,1,"a"],[-3,2,"b"],[-4,3,null],[-Infinity,4,null]]]}}]`,
		)
		return true
	}
	got, err := s.client(t, func(o *Options) { o.Protocol = "sglang" }).Score(t.Context(), Sequence{IDs: []int32{0, 2}})
	if err != nil || got.Top[0][3].LogProb != floor || got.Token[0] != -3 {
		t.Errorf("%+v %v", got, err)
	}
	s.before, s.spoil = nil, func(_ []int32, a map[string]any) {
		row := a["actual_logprobs"].([]any)[0].([]any)
		for i, x := range row {
			row[i] = []any{x}
		}
	}
	c := s.client(t, func(o *Options) { o.Protocol = "trl" })
	if got, err = c.Score(t.Context(), sequence); err != nil {
		t.Fatal(err)
	}
	wantScores(t, c, got, sequence, true)
}

// TestHostileAnswers checks that each costs its own sequence, with a reason, and is not requested again.
func TestHostileAnswers(t *testing.T) {
	list := func(a map[string]any) []any {
		return a["choices"].([]any)[0].(map[string]any)["prompt_logprobs"].([]any)
	}
	setList := func(a map[string]any, l []any) { a["choices"].([]any)[0].(map[string]any)["prompt_logprobs"] = l }
	trl := func(a map[string]any, key string) []any { return a[key].([]any)[0].([]any) }
	for name, c := range map[string]struct {
		protocol, want string
		spoil          func(a map[string]any)
	}{
		"too short": {"vllm", "7 positions for 8 tokens", func(a map[string]any) { setList(a, list(a)[:7]) }},
		"too long": {
			"vllm",
			"9 positions for 8 tokens",
			func(a map[string]any) { setList(a, append(list(a), list(a)[7])) },
		},
		"missing position": {"vllm", "token 5: expected an object, got null", func(a map[string]any) { list(a)[5] = nil }},
		"empty position":   {"vllm", "got 0 entries, expected 4", func(a map[string]any) { list(a)[5] = map[string]any{} }},
		"no list": {
			"vllm",
			"missing prompt_logprobs",
			func(a map[string]any) { a["choices"] = []any{map[string]any{}} },
		},
		"no choices": {"vllm", "choices", func(a map[string]any) { delete(a, "choices") }},
		"id beyond": {
			"vllm",
			"token id 99",
			func(a map[string]any) { list(a)[4].(map[string]any)["99"] = map[string]any{"logprob": -9} },
		},
		"id of text": {
			"vllm",
			"invalid token id",
			func(a map[string]any) { list(a)[4].(map[string]any)["the"] = map[string]any{"logprob": -9} },
		},
		"null log-prob": {
			"vllm",
			"invalid log-prob of token 1: null",
			func(a map[string]any) { list(a)[4].(map[string]any)["1"] = map[string]any{"logprob": nil} },
		},
		"logits": {
			"vllm",
			"got 3.5, expected 0 or below",
			func(a map[string]any) { list(a)[4].(map[string]any)["1"] = map[string]any{"logprob": 3.5} },
		},
		"mass": {
			"vllm",
			"sum to",
			func(a map[string]any) { list(a)[4].(map[string]any)["1"] = map[string]any{"logprob": -0.0001} },
		},
		"duplicate, differs": {
			"trl",
			"duplicate token 3",
			func(a map[string]any) { x := trl(a, "logprob_token_ids")[0].([]any); x[1] = x[0] },
		},
		"duplicate, the same": {"trl", "got 3 entries, expected 4", func(a map[string]any) {
			x, y := trl(a, "logprob_token_ids")[0].([]any), trl(a, "logprobs")[0].([]any)
			x[1], y[1] = x[0], y[0]
		}},
		"ids and log-probs": {
			"trl",
			"ids for 4",
			func(a map[string]any) { a["logprob_token_ids"] = []any{trl(a, "logprob_token_ids")[:4]} },
		},
		"ragged": {
			"trl",
			"4 log-probs and 3 ids",
			func(a map[string]any) { x := trl(a, "logprob_token_ids"); x[2] = x[2].([]any)[:3] },
		},
		"one position short": {"trl", "4 positions for 5", func(a map[string]any) {
			for _, k := range []string{"logprobs", "logprob_token_ids", "actual_logprobs"} {
				a[k] = []any{trl(a, k)[:4]}
			}
		}},
		"negative id": {"trl", "-5", func(a map[string]any) { trl(a, "logprob_token_ids")[0].([]any)[0] = -5 }},
		"other tokens": {"sglang", "the sequence has 4", func(a map[string]any) {
			a["meta_info"].(map[string]any)["input_token_logprobs"].([]any)[2].([]any)[1] = 11
		}},
		"another sequence": {"vllm", "is not among the entries", func(a map[string]any) {
			at := list(a)[4].(map[string]any)
			clear(at) // of token 5
			for _, id := range []string{"0", "1", "2", "3"} {
				at[id] = map[string]any{"logprob": -3}
			}
		}},
		"other prompt": {
			"atropos",
			"scored token 9 at position 1",
			func(a map[string]any) { a["prompt_tokens"] = []int{3, 9} },
		},
		"half a prompt": {"atropos", "scored only 4 of 8 tokens", func(a map[string]any) {
			a["prompt_tokens"] = sequence.IDs[:4]
		}},
		"no meta":        {"sglang", "meta_info", func(a map[string]any) { delete(a, "meta_info") }},
		"fields missing": {"atropos", "prompt_topk", func(a map[string]any) { delete(a, "prompt_topk_logprobs") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.spoil = func(ids []int32, a map[string]any) {
				if ids[0] == sequence.IDs[0] {
					c.spoil(a)
				}
			}
			good := Sequence{IDs: []int32{1, 2, 3, 4}}
			var settled atomic.Int64
			client := s.client(t, func(o *Options) { o.Protocol, o.Settled = c.protocol, func() { settled.Add(1) } })
			res, err := client.ScoreAll(t.Context(), []Sequence{sequence, good})
			if err != nil {
				t.Fatal(err)
			}
			if settled.Load() != 2 {
				t.Errorf("%d of 2 sequences were reported", settled.Load())
			}
			if r := res[0]; r.Reason != TeacherBadAnswer || r.Scores != nil ||
				!strings.Contains(r.Err.Error(), c.want) {
				t.Errorf("%q %v", r.Reason, r.Err)
			}
			if res[1].Err != nil {
				t.Errorf("the other sequence: %v", res[1].Err)
			}
			if n := s.calls.Load(); n != 2 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestHostileBodies: what is not JSON, or JSON that JSON forbids.
func TestHostileBodies(t *testing.T) {
	for body, want := range map[string]string{
		``:             "",
		`<html>`:       "",
		`null`:         "neither a JSON object nor an array",
		`{"choices":[`: "",
		`{"choices":[{"prompt_logprobs":[null,{"1":{"logprob":NaN},"2":{"logprob":-1},"3":{"logprob":-2},"4":{"logprob":-3}}]}]}`:      ": NaN",
		`{"choices":[{"prompt_logprobs":[null,{"1":{"logprob":Infinity},"2":{"logprob":-1},"3":{"logprob":-2},"4":{"logprob":-3}}]}]}`: "expected 0 or below",
		strings.Repeat("[", 100): "",
	} {
		t.Run(body, func(t *testing.T) {
			s := newServer(t)
			s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				io.WriteString(w, body)
				return true
			}
			res, err := s.client(t, nil).ScoreAll(t.Context(), []Sequence{{IDs: []int32{1, 2}}})
			if err != nil || res[0].Reason != TeacherBadAnswer || !strings.Contains(res[0].Err.Error(), want) {
				t.Errorf("%.60s: %v %+v", body, err, res)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		status, times int
		reason        ledger.Reason
		calls         int64
	}{
		"busy, then not":        {429, 2, "", 3},
		"broken, then not":      {503, 4, "", 5},
		"broken for good":       {500, 99, teacherUnavailable, 5},
		"too long for it":       {400, 99, teacherUnavailable, 1},
		"connection is dropped": {0, 2, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.before = func(call int64, w http.ResponseWriter, r *http.Request) bool {
				if call > int64(c.times) {
					return false
				}
				if c.status == 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Location", "http://example.com/")
				w.WriteHeader(c.status)
				io.WriteString(w, r.Header.Get("Authorization")) // a server that repeats the key
				return true
			}
			res, err := s.client(t, nil).ScoreAll(t.Context(), []Sequence{sequence})
			if err != nil || res[0].Reason != c.reason || s.calls.Load() != c.calls {
				t.Errorf("%s: %v, %+v, %d calls", name, err, res[0], s.calls.Load())
			}
			if e := res[0].Err; e != nil && strings.Contains(e.Error(), "sekret") {
				t.Errorf("%s: the key is in %v", name, e)
			}
		})
	}
}

func TestSlowServers(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int64, w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	c := s.client(t, func(o *Options) { o.Timeout, o.Tries = 30*time.Millisecond, 2 })
	res, err := c.ScoreAll(t.Context(), []Sequence{sequence})
	if err != nil || res[0].Reason != teacherUnavailable || s.calls.Load() != 2 {
		t.Errorf("%v %+v", err, res)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.ScoreAll(ctx, []Sequence{sequence}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// TestWrongAddressEndsTheWork checks that a server without the path gives no answer at all, for any sequence.
func TestWrongAddressEndsTheWork(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int64, w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	_, err := s.client(t, func(o *Options) { o.Protocol = "trl" }).ScoreAll(t.Context(), []Sequence{sequence})
	var fatal *Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "protocol vllm") || s.calls.Load() != 1 {
		t.Errorf("%v after %d calls", err, s.calls.Load())
	}
}

// TestMovedServerEndsTheWork checks that neither the prompts nor the key are sent to another server.
func TestMovedServerEndsTheWork(t *testing.T) {
	s, other := newServer(t), newServer(t)
	s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Location", other.URL+"/v1/completions")
		w.WriteHeader(307)
		return true
	}
	_, err := s.client(t, nil).ScoreAll(t.Context(), []Sequence{sequence})
	var fatal *Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "redirected to "+other.URL) ||
		other.calls.Load() != 0 {
		t.Errorf("%v after %d calls elsewhere", err, other.calls.Load())
	}
}

// TestEndlessAnswer checks that it costs its own sequence, and no more memory than the limit.
func TestEndlessAnswer(t *testing.T) {
	s := newServer(t)
	var sent atomic.Int64
	s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		io.WriteString(w, `{"choices":[`)
		for block := []byte(strings.Repeat(" ", 1<<16)); ; sent.Add(int64(len(block))) {
			if _, err := w.Write(block); err != nil || sent.Load() > 1<<30 {
				return true
			}
		}
	}
	res, err := s.client(t, func(o *Options) { o.MaxAnswer = 1 << 20 }).ScoreAll(t.Context(), []Sequence{sequence})
	if err != nil || res[0].Reason != TeacherBadAnswer ||
		!strings.Contains(res[0].Err.Error(), "max_answer_bytes (1048576)") ||
		s.calls.Load() != 1 {
		t.Errorf("%v %+v, %d calls", err, res, s.calls.Load())
	}
	if sent.Load() > 64<<20 {
		t.Errorf("the server could send %d bytes", sent.Load())
	}
}

// TestWideAnswers covers answers that are small as JSON but large in memory.
func TestWideAnswers(t *testing.T) {
	wide := strings.Repeat("1,", maxPositions) + "1"
	for name, c := range map[string]struct{ protocol, body, want string }{
		"positions": {"trl", `{"logprobs":[[` + wide + `]],"logprob_token_ids":[[` + wide + `]]}`, "more than 1048576 positions"},
		"entries":   {"trl", `{"logprobs":[[[` + wide[:1<<18-1] + `]]],"logprob_token_ids":[[[]]]}`, "more than 65536 log-probs at one position"},
		"vllm":      {"vllm", `{"choices":[{"prompt_logprobs":[` + wide + `]}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
				io.WriteString(w, c.body)
				return true
			}
			res, err := s.client(t, func(o *Options) { o.Protocol = c.protocol }).
				ScoreAll(t.Context(), []Sequence{sequence})
			if err != nil || res[0].Reason != TeacherBadAnswer || !strings.Contains(res[0].Err.Error(), c.want) {
				t.Errorf("%s: %v %+v", name, err, res[0])
			}
		})
	}
}

// TestSGLangClipsTheLastID checks that SGLang's 0 is accepted where the last id of its vocabulary is.
func TestSGLangClipsTheLastID(t *testing.T) {
	s := newServer(t)
	s.spoil = func(ids []int32, a map[string]any) {
		for i, id := range ids {
			if id == vocab-1 {
				a["meta_info"].(map[string]any)["input_token_logprobs"].([]any)[i].([]any)[1] = 0
			}
		}
	}
	if _, err := s.client(t, func(o *Options) { o.Protocol = "sglang" }).
		Score(t.Context(), Sequence{IDs: []int32{1, vocab - 1, 3}}); err != nil {
		t.Error(err)
	}
}

func TestRefusedKeyEndsTheWork(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(401); return true }
	_, err := s.client(t, nil).ScoreAll(t.Context(), []Sequence{sequence})
	var fatal *Fatal
	if !errors.As(err, &fatal) || !strings.Contains(err.Error(), "api_key") {
		t.Error(err)
	}
}

func TestVocabulary(t *testing.T) {
	s := newServer(t)
	if err := s.client(t, nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		serve  func(string) []int32
		want   string
	}{
		"other ids":   {nil, func(string) []int32 { return []int32{1, 2} }, "a different vocabulary"},
		"no endpoint": {func(o *Options) { o.Protocol = "trl" }, letters, "cannot confirm"},
		"no probes":   {func(o *Options) { o.Vocabulary.Probes = nil }, letters, "cannot confirm"},
		"not found":   {func(o *Options) { o.Endpoint += "/elsewhere" }, letters, "does not tokenise"},
		"believed":    {func(o *Options) { o.Protocol, o.Vocabulary.Assume = "trl", true }, letters, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.tokens = c.serve
			err := s.client(t, c.change).Check(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestStore checks that answered questions are not asked again, equal sequences are asked once, and damaged answers are
// requested again.
func TestStore(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	keep := func(o *Options) { o.Store = dir }
	c := s.client(t, keep)
	first, err := c.ScoreAll(t.Context(), []Sequence{sequence, sequence})
	if err != nil || first[1].Scores == nil || s.calls.Load() != 1 {
		t.Fatalf("%v %+v, %d calls", err, first, s.calls.Load())
	}
	again, err := s.client(t, keep).Score(t.Context(), sequence)
	if err != nil || s.calls.Load() != 1 {
		t.Fatalf("%v, %d calls", err, s.calls.Load())
	}
	wantScores(t, c, again, sequence, true)
	for _, change := range []func(*Options){
		func(o *Options) { o.TopK = 3 }, func(o *Options) { o.Model = "n" }, func(o *Options) {
			o.Vocabulary.Fingerprint = "g"
		},
	} {
		before := s.calls.Load()
		if _, err := s.client(t, func(o *Options) { keep(o); change(o) }).Score(t.Context(), sequence); err != nil ||
			s.calls.Load() != before+1 {
			t.Errorf("another question had the same answer (%v)", err)
		}
	}
	path := c.store.path(c.key(sequence))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	for _, spoiled := range [][]byte{data, data[:40], nil} {
		before := s.calls.Load()
		if err := os.WriteFile(path, spoiled, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client(t, keep).Score(t.Context(), sequence); err != nil || s.calls.Load() != before+1 {
			t.Errorf("a damaged answer of %d bytes was accepted (%v)", len(spoiled), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", ".nat-go-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestConcurrencyIsBounded(t *testing.T) {
	s := newServer(t)
	busy := make(chan struct{}, 3)
	s.before = func(_ int64, w http.ResponseWriter, _ *http.Request) bool {
		select {
		case busy <- struct{}{}:
			time.Sleep(time.Millisecond)
			<-busy
		default:
			w.WriteHeader(400)
			return true
		}
		return false
	}
	var all []Sequence
	for i := range 40 {
		all = append(all, Sequence{IDs: []int32{int32(i % vocab), int32(i / vocab), 1}})
	}
	res, err := s.client(t, nil).ScoreAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"unknown protocol":                                    {Endpoint: "http://h", Protocol: "x"},
		"invalid service address":                             {Endpoint: "user:pw@h", Model: "m"},
		"teacher: missing model name: protocol vllm needs it": {Endpoint: "http://h"},
		"expected 1 or above":                                 {Endpoint: "http://h", Model: "m", TopK: -1},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) ||
				strings.Contains(err.Error(), "pw") {
				t.Errorf("%s: %v", want, err)
			}
		})
	}
}
