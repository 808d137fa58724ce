package teacher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	wire "github.com/nat-go/nat-go/ttc/json"
)

// protocol describes how to communicate with one kind of server.
type protocol struct {
	path string
	// ask builds the body of a request.
	ask func(o *Options, s Sequence) any
	// answer parses a response and returns the predictions at positions s.From and later.
	answer func(o *Options, s Sequence, body wire.Raw) ([]raw, error)
	// tokenize is the path at which the server tokenises text; empty if it can't.
	tokenize string
	// missingHint is appended to the error for a server that doesn't serve path.
	missingHint string
}

var protocols = map[string]*protocol{
	"vllm": {path: "/v1/completions", ask: askVLLM, answer: answerVLLM, tokenize: "/tokenize"},
	"trl": {
		path:        "/get_sequence_logprobs/",
		ask:         askTRL,
		answer:      answerTRL,
		missingHint: "; newer versions of TRL use a plain vLLM server: protocol vllm",
	},
	"sglang": {path: "/generate", ask: askSGLang, answer: answerSGLang, tokenize: "/tokenize"},
	// the format of an Atropos server manager's get_logprobs, and of the distill_ columns of Atropos's scored groups
	"atropos": {path: "/get_logprobs", ask: askAtropos, answer: answerAtropos},
}

// Tokenizes reports whether servers that speak a protocol can tokenise text, so that their vocabulary can be compared
// with the model's.
func Tokenizes(protocol string) bool {
	p := protocols[protocol]
	return p != nil && p.tokenize != ""
}

// protocolNames returns the sorted names of the protocols.
func protocolNames() []string { return slices.Sorted(maps.Keys(protocols)) }

func askVLLM(o *Options, s Sequence) any {
	return map[string]any{
		"model":              o.Model,
		"prompt":             s.IDs,
		"max_tokens":         1,
		"temperature":        0,
		"prompt_logprobs":    s.entries(o.TopK),
		"add_special_tokens": false,
	}
}

// answerVLLM reads choices[0].prompt_logprobs, a list with one entry per token. The first entry is null. Each of the
// others has the form {id: {logprob, rank, ...}} and holds, in no particular order, the k best tokens and the actual
// token, which may be one of them. An entry without its own token shows that the server scored another sequence.
// (vllm/v1/engine/logprobs.py; prompt log-probs are raw at any temperature, and -inf is sent as -9999.)
func answerVLLM(o *Options, s Sequence, body wire.Raw) ([]raw, error) {
	choice, err := element(body, "choices")
	if err != nil {
		return nil, err
	}
	list, ok := array(choice, "prompt_logprobs")
	if !ok {
		return nil, bad("missing prompt_logprobs: the server is too old, or not vLLM")
	}
	out, err := tokenAligned(s, list, func(at wire.Raw) (entries []Entry, err error) {
		if at.Kind() != wire.Object {
			return nil, fmt.Errorf("expected an object, got %s", at.Kind())
		}
		for key, v := range at.Members() {
			text, _ := key.Text()
			id, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("invalid token id %q", text)
			}
			lp, ok := v.Get("logprob")
			if !ok {
				return nil, fmt.Errorf("missing logprob of token %d", id)
			}
			if entries, err = appendEntry(entries, id, lp); err != nil {
				return nil, err
			}
		}
		return entries, nil
	})
	for i := range out {
		token := s.IDs[s.From+i+1]
		if len(out[i].entries) > 0 &&
			!slices.ContainsFunc(out[i].entries, func(e Entry) bool { return e.ID == token }) {
			return nil, bad("token %d: its own id, %d, is not among the entries: the server scored another sequence",
				s.From+i+1, token)
		}
	}
	return out, err
}

func askTRL(o *Options, s Sequence) any {
	return map[string]any{
		"sequences":       [][]int32{s.IDs},
		"prompt_lengths":  []int{s.From + 1},
		"top_logprobs":    max(1, s.entries(o.TopK)),
		"temperature":     1,
		"response_format": "json",
	}
}

// answerTRL reads logprobs and logprob_token_ids, which have the shape [sequence][completion token][k]. They are
// prediction-aligned: entry i is for completion token i, and has k or k+1 tokens, sorted by rank. actual_logprobs, if
// present, holds the log-probs of the actual tokens. (vllm-serve in TRL 1.0 to 1.2 has this format. Later versions
// don't: TRL's own client calls a plain vLLM server, so the protocol must be vllm.)
func answerTRL(o *Options, s Sequence, body wire.Raw) ([]raw, error) {
	lps, err := element(body, "logprobs")
	ids, err2 := element(body, "logprob_token_ids")
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	out, err := zipped(lps, ids)
	if err != nil {
		return nil, err
	}
	if _, ok := array(body, "actual_logprobs"); ok {
		actual, err := element(body, "actual_logprobs")
		if err != nil {
			return nil, err
		}
		i := 0
		for v := range actual.Elements() {
			if first := head(v, 1); len(first) > 0 { // [[x], [x], ...] in some versions
				v = first[0]
			}
			f, ok := v.Float64()
			if !ok || math.IsNaN(f) || i >= len(out) {
				return nil, bad("invalid or unexpected entry %d of actual_logprobs", i)
			}
			out[i].actual = f
			i++
		}
	}
	return out, nil
}

func askSGLang(o *Options, s Sequence) any {
	return map[string]any{
		"input_ids": s.IDs, "sampling_params": map[string]any{"max_new_tokens": 1, "temperature": 0},
		"return_logprob": true, "logprob_start_len": 0, "top_logprobs_num": max(1, s.entries(o.TopK)),
	}
}

// answerSGLang reads meta_info.input_top_logprobs, a list with one entry [[logprob, id, text], ...] per token, the
// first of which is null. It also reads input_token_logprobs, [[logprob, id, text], ...], and compares its ids with the
// request. (For the last id of its vocabulary SGLang reports 0 there, as it does for the hashes that replace images.)
func answerSGLang(o *Options, s Sequence, body wire.Raw) ([]raw, error) {
	if first := head(body, 1); len(first) > 0 {
		body = first[0]
	}
	meta, ok := body.Get("meta_info")
	if !ok {
		return nil, bad("missing meta_info")
	}
	top, ok := array(meta, "input_top_logprobs")
	if !ok {
		return nil, bad("missing meta_info.input_top_logprobs")
	}
	out, err := tokenAligned(s, top, triples)
	if err != nil {
		return nil, err
	}
	tokens, ok := array(meta, "input_token_logprobs")
	if !ok {
		return out, nil
	}
	i := 0
	for v := range tokens.Elements() {
		if i >= len(s.IDs) {
			return nil, bad("input_token_logprobs has more entries than the sequence has tokens, %d", len(s.IDs))
		}
		lp, id, parts := math.NaN(), int64(-1), head(v, 2)
		if len(parts) > 0 {
			if f, ok := parts[0].Float64(); ok {
				lp = f
			}
		}
		if len(parts) > 1 {
			id, _ = parts[1].Int64()
		}
		clipped := id == 0 && int(s.IDs[i]) >= o.Vocabulary.Size-1
		if id != int64(s.IDs[i]) && !clipped {
			return nil, bad("the server scored token %d at position %d; the sequence has %d", id, i, s.IDs[i])
		}
		if p := i - 1 - s.From; p >= 0 {
			out[p].actual = lp
		}
		i++
	}
	if i != len(s.IDs) {
		return nil, bad("input_token_logprobs has %d entries for %d tokens", i, len(s.IDs))
	}
	return out, nil
}

// triples reads [[logprob, id, text], ...].
func triples(at wire.Raw) (entries []Entry, err error) {
	if at.Kind() != wire.Array {
		return nil, fmt.Errorf("expected an array, got %s", at.Kind())
	}
	for e := range at.Elements() {
		parts := head(e, 2)
		if len(parts) < 2 {
			return nil, fmt.Errorf("expected a [logprob, id, text] list, got %.40s", e)
		}
		id, ok := parts[1].Int64()
		if !ok {
			return nil, fmt.Errorf("invalid token id %.40s", parts[1])
		}
		if entries, err = appendEntry(entries, id, parts[0]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func askAtropos(o *Options, s Sequence) any {
	return map[string]any{"input_ids": s.IDs, "top_k": s.entries(o.TopK), "max_tokens": 1}
}

// answerAtropos reads prompt_topk_token_ids and prompt_topk_logprobs, which have the shape [token][k], are
// token-aligned and begin with an empty entry. It compares prompt_tokens, if present, with the request.
func answerAtropos(o *Options, s Sequence, body wire.Raw) ([]raw, error) {
	lps, ok := body.Get("prompt_topk_logprobs")
	ids, ok2 := body.Get("prompt_topk_token_ids")
	if !ok || !ok2 {
		return nil, bad("missing prompt_topk_token_ids or prompt_topk_logprobs")
	}
	if tokens, ok := array(body, "prompt_tokens"); ok {
		i := 0
		for e := range tokens.Elements() {
			if id, ok := e.Int64(); !ok || i >= len(s.IDs) || id != int64(s.IDs[i]) {
				return nil, bad("the server scored token %.20s at position %d, not the sequence it was given", e, i)
			}
			i++
		}
		if i < len(s.IDs) {
			return nil, bad("the server scored only %d of %d tokens", i, len(s.IDs))
		}
	}
	out, err := zipped(lps, ids)
	if err != nil {
		return nil, err
	}
	if len(out) != len(s.IDs) {
		return nil, bad("%d positions for %d tokens", len(out), len(s.IDs))
	}
	return out[s.From+1:], nil
}

// element returns the first item of the array body[key].
func element(body wire.Raw, key string) (wire.Raw, error) {
	list, ok := array(body, key)
	if !ok {
		return nil, bad("missing %s", key)
	}
	if first := head(list, 1); len(first) > 0 {
		return first[0], nil
	}
	return nil, bad("%s is empty", key)
}

// array returns the array body[key].
func array(body wire.Raw, key string) (list wire.Raw, ok bool) {
	list, ok = body.Get(key)
	return list, ok && list.Kind() == wire.Array
}

// head returns an array's first n elements, or all if there are fewer. For any other value, it returns none.
func head(list wire.Raw, n int) (first []wire.Raw) {
	for e := range list.Elements() {
		if first = append(first, e); len(first) == n {
			break
		}
	}
	return first
}

// tokenAligned reads one entry per token and shifts them: the entry for token p+1 is the prediction at p.
func tokenAligned(s Sequence, list wire.Raw, read func(wire.Raw) ([]Entry, error)) ([]raw, error) {
	var out []raw
	i := 0
	for v := range list.Elements() {
		if p := i - 1; p >= s.From && i < len(s.IDs) {
			entries, err := read(v)
			if err != nil {
				return nil, bad("token %d: %s", i, err)
			}
			out = append(out, raw{entries, math.NaN()})
		}
		i++
	}
	if i != len(s.IDs) {
		return nil, bad("%d positions for %d tokens", i, len(s.IDs))
	}
	return out, nil
}

// Limits on the length of lists in a response. A limit on the response's size isn't enough, because a list of two-byte
// elements takes twelve times that much memory.
const (
	maxPositions = 1 << 20
	maxEntries   = 1 << 16
)

// collect returns an array's elements as a slice.
func collect(array wire.Raw, maxLen int, what string) ([]wire.Raw, error) {
	var out []wire.Raw
	for e := range array.Elements() {
		if len(out) == maxLen {
			return nil, bad("more than %d %s", maxLen, what)
		}
		out = append(out, e)
	}
	return out, nil
}

// zipped combines an array of log-probs and an array of ids, both of the shape [position][k]. Null entries are padding.
func zipped(lps, ids wire.Raw) ([]raw, error) {
	if lps.Kind() != wire.Array || ids.Kind() != wire.Array {
		return nil, bad("log-probs and ids are not arrays")
	}
	a, err := collect(lps, maxPositions, "positions")
	b, err2 := collect(ids, maxPositions, "positions")
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	if len(a) != len(b) {
		return nil, bad("log-probs for %d positions, ids for %d", len(a), len(b))
	}
	out := make([]raw, len(a))
	for i := range a {
		out[i].actual = math.NaN()
		if a[i].Kind() != wire.Array || b[i].Kind() != wire.Array {
			continue
		}
		x, err := collect(a[i], maxEntries, "log-probs at one position")
		y, err2 := collect(b[i], maxEntries, "ids at one position")
		if err := cmp.Or(err, err2); err != nil {
			return nil, err
		}
		if len(x) != len(y) {
			return nil, bad("position %d has %d log-probs and %d ids", i, len(x), len(y))
		}
		for k := range x {
			if x[k].Kind() == wire.Null || y[k].Kind() == wire.Null {
				continue
			}
			id, ok := y[k].Int64()
			if !ok {
				return nil, bad("position %d: %.40s is not a token id", i, y[k])
			}
			if out[i].entries, err = appendEntry(out[i].entries, id, x[k]); err != nil {
				return nil, bad("position %d: %s", i, err)
			}
		}
	}
	return out, nil
}

func appendEntry(dst []Entry, id int64, lp wire.Raw) ([]Entry, error) {
	f, ok := lp.Float64()
	if !ok {
		return nil, fmt.Errorf("invalid log-prob of token %d: %.40s", id, lp)
	}
	if id < 0 || id > math.MaxInt32 {
		return nil, fmt.Errorf("invalid token id %d", id)
	}
	return append(dst, Entry{int32(id), float32(f)}), nil
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // impossible, because the maps contain only numbers and strings
		panic(err)
	}
	return b
}
