package exchange

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
)

// Exchange is a request to a model and its response.
type Exchange struct {
	ID, Model string
	Previous  string // id of the response that the request continues without repeating earlier messages
	Input     []calls.Message
	// Instructed reports whether the first message is the request's instructions, which don't apply to later requests
	// that continue the response.
	Instructed bool
	Answers    []Answer        // the choices, or the parts of a response within which the server ran tools
	Said       []calls.Message // the response's messages, if it is from the Responses API
	Tools      []chat.Tool     // nil if unknown; empty if the request has none
	Gaps       ttc.Gaps
	Unread     map[string]int64 // number of items that aren't understood, by type
	Usage      calls.Usage
	Time       int64 // time of the response, in nanoseconds since 1970; 0 if unknown
}

// Answer is a model's answer.
type Answer struct {
	chat.Message
	Given    int      // number of messages in the response before the answer
	Gaps     ttc.Gaps // gaps of this answer alone
	Finish   string
	TokenIDs []int32
	LogProbs []float32
}

// ErrShape is the error for a response from an unknown API.
var ErrShape = errors.New("response is not from chat completions, the Responses API or Anthropic's messages API")

// Of reads a request and its response, in the response's format.
func Of(request, response json.Raw) (Exchange, error) {
	switch {
	case IsResponses(response):
		return Responses(request, response, false), nil
	case isChat(response):
		return Chat(request, response)
	case isAnthropic(response):
		return anthropic(request, response)
	}
	return Exchange{}, ErrShape
}

// isChat reports whether a response is from chat completions.
func isChat(response json.Raw) bool { return list(response, "choices") != nil }

// IsResponses reports whether a response is from the Responses API.
func IsResponses(response json.Raw) bool { return list(response, "output") != nil }

// isAnthropic reports whether a response is from Anthropic's messages API.
func isAnthropic(response json.Raw) bool {
	return list(response, "content") != nil && session.Text(response, "role") == "assistant"
}

// list returns the array under a key, or nil.
func list(object json.Raw, key string) json.Raw {
	if v, ok := object.Get(key); ok && v.Kind() == json.Array {
		return v
	}
	return nil
}

// count returns the number under the first of the keys that holds a positive integer.
func count(object json.Raw, keys ...string) int64 {
	for _, key := range keys {
		if n, ok := session.At(object, key).Int64(); ok && n > 0 {
			return n
		}
	}
	return 0
}

// TokenIDs reads token ids. It returns nil if the list contains anything else.
func TokenIDs(list json.Raw) (out []int32) {
	for e := range list.Elements() {
		n, ok := e.Int64()
		if !ok || n < 0 || n > math.MaxInt32 {
			return nil
		}
		out = append(out, int32(n))
	}
	return out
}

// Tokens reads the ids that a model generated, and their log-probs if there is one for each id.
func Tokens(list, logProbs json.Raw) (ids []int32, probs []float32) {
	ids, probs = TokenIDs(list), readLogProbs(logProbs)
	if len(probs) != len(ids) {
		probs = nil
	}
	return ids, probs
}

// readLogProbs reads log-probs. It returns nil if the list contains anything else, such as a positive number.
func readLogProbs(list json.Raw) (out []float32) {
	for e := range list.Elements() {
		f, ok := e.Float64()
		if !ok || math.IsNaN(f) || f > 0 {
			return nil
		}
		out = append(out, float32(f))
	}
	return out
}

// Gap returns the gap caused by arguments that are not text.
func Gap(m *chat.Message) ttc.Gaps {
	if slices.ContainsFunc(m.ToolCalls, func(c chat.ToolCall) bool { return c.AsObject }) {
		return ttc.ParsedArguments
	}
	return 0
}

// AddTo adds the calls of an exchange, one for each answer, to a session. The exchange's id and model take precedence
// over c's; c's time and input take precedence over the exchange's. If c has no input and the request continues an
// earlier response, the earlier messages are missing.
func (e *Exchange) AddTo(s *calls.Session, c calls.Call) {
	c.ID, c.Model, c.Time = cmp.Or(e.ID, c.ID), cmp.Or(e.Model, c.Model), cmp.Or(c.Time, e.Time)
	c.Usage, c.Gaps, c.Tools = e.Usage, c.Gaps|e.Gaps, e.Tools
	if c.Tools == nil {
		c.Gaps |= ttc.NoTools
	}
	input := c.Input
	if input == nil {
		if e.Previous != "" {
			c.Gaps |= ttc.RebuiltHistory
		}
		input = Refs(s, e.Input)
	}
	all := slices.Concat(input, Refs(s, e.Said))
	id := c.ID
	for i := range e.Answers {
		a := &e.Answers[i]
		choice := c
		if i > 0 {
			choice.ID = id + "/" + strconv.Itoa(i)
		}
		given := len(input) + a.Given
		choice.Input = all[:given:given]
		choice.Output, choice.FinishReason = a.Message, a.Finish
		choice.TokenIDs, choice.LogProbs = a.TokenIDs, a.LogProbs
		choice.Gaps |= a.Gaps | Gap(&a.Message)
		s.Add(choice)
	}
}

// Refs adds messages to a session, and returns references to them.
func Refs(s *calls.Session, messages []calls.Message) []calls.Ref {
	refs := make([]calls.Ref, len(messages))
	for i, m := range messages {
		refs[i] = s.Message(m)
	}
	return refs
}

// MarkFailed sets, by call id, whether the tools that produced the input's results failed, unless the messages
// already contain that information.
func (e *Exchange) MarkFailed(failed map[string]bool) {
	for i := range e.Input {
		m := &e.Input[i]
		if failed, ok := failed[m.ToolCallID]; ok && m.Role == "tool" && m.Error == nil {
			m.Error = &failed
		}
	}
}

// Known reports whether a response is from a supported API.
func Known(response json.Raw) bool {
	return isChat(response) || IsResponses(response) || isAnthropic(response)
}
