package requestlog

import (
	"cmp"
	"encoding/hex"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/exchange"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// entry is a call as it appears in a log.
type entry struct {
	raw, request, response json.Raw
	failed                 string // why the answer is missing; empty if no reason is recorded
}

// entryOf finds the request and the response in an entry. It returns false for anything that is not a call.
func entryOf(raw json.Raw) (entry, bool) {
	e := entry{raw: raw}
	if isLiteLLM(raw) {
		e.request, e.response = liteLLMRequest(raw), exchange.Joined(body(raw, "response"))
		if text := session.Text(raw, "error_str"); text != "" || session.Text(raw, "status") == "failure" {
			e.failed = session.Name("the status is failure: " + text)
		}
		return e, true
	}
	if given, ok := raw.Get("model_input_messages"); ok {
		e.request, e.response = stepOf(raw, given)
		return e, given.Kind() == json.Array && e.response != nil
	}
	e.request, e.response = body(raw, "request"), exchange.Joined(body(raw, "response"))
	if e.request.Kind() != json.Object || !isRequest(e.request) {
		return e, false
	}
	for _, where := range []json.Raw{e.response, raw} {
		if failure, ok := where.Get("error"); ok && failure.Kind() != json.Null {
			e.failed = session.Name(cmp.Or(session.Text(failure), session.Text(failure, "message")))
		}
	}
	if e.failed == "" && e.response.Kind() == json.Null {
		e.failed = "missing response"
	}
	return e, true
}

// isResponses reports whether a call uses the Responses API, judging by its response, or by its request if the response
// is of an unknown kind.
func (e *entry) isResponses() bool {
	if exchange.Known(e.response) {
		return exchange.IsResponses(e.response)
	}
	return !session.Has(e.request, "messages")
}

// isRequest reports whether an object is a request to one of the APIs.
func isRequest(request json.Raw) bool {
	in := session.At(request, "input").Kind()
	// A stored prompt may name the model.
	named := session.Has(request, "model") || session.At(request, "prompt").Kind() == json.Object
	return session.At(request, "messages").Kind() == json.Array || named && (in == json.Array || in == json.String)
}

// body returns the value under a key, which may be an object, its JSON text, or an object with either under body.
func body(raw json.Raw, key string) json.Raw {
	v, ok := raw.Get(key)
	if !ok {
		return json.Raw("null")
	}
	for range 3 {
		if text, ok := v.Text(); ok {
			parsed, err := json.Parse([]byte(text), json.Limits{})
			if err != nil {
				return v
			}
			v = parsed
			continue
		}
		inner, ok := v.Get("body")
		if v.Kind() != json.Object || !ok {
			return v
		}
		v = inner
	}
	return v
}

// isLiteLLM reports whether an entry is a LiteLLM payload.
func isLiteLLM(raw json.Raw) bool {
	return session.Has(raw, "litellm_call_id", "messages")
}

// liteLLMRequest assembles the request from its separate parts: the messages, or the input, and the parameters.
func liteLLMRequest(raw json.Raw) json.Raw {
	messages := session.At(raw, "messages")
	out := compose.Object(nil).Member(json.Raw(`"messages"`), messages).Member(json.Raw(`"input"`), messages)
	for key, value := range session.At(raw, "model_parameters").Members() {
		if !key.Is("messages") && !key.Is("input") {
			out = out.Member(key, value)
		}
	}
	return out.End()
}

// session returns the session that a call belongs to according to the log. It is empty if the log doesn't name one.
func (e *entry) session() string {
	metadata, own := session.At(e.raw, "metadata"), session.At(e.request, "metadata")
	for _, key := range []string{"session_id", "conversation_id", "thread_id", "conversation", "trace_id"} {
		for _, where := range []json.Raw{e.raw, metadata, e.request, own} {
			v := session.At(where, key)
			if v.Kind() == json.Object {
				v = session.At(v, "id")
			}
			if id := source.IDText(v); id != "" && id != session.Text(e.raw, "litellm_call_id") {
				return id
			}
		}
	}
	// Older versions of Claude Code write user_..._session_ID, newer ones a JSON object as a string.
	user := session.Text(own, "user_id")
	if _, id, ok := strings.Cut(user, "_session_"); ok {
		return id
	}
	if parsed, err := json.Parse([]byte(user), json.Limits{}); err == nil {
		return session.Text(parsed, "session_id")
	}
	return ""
}

// opening returns a key shared by calls with the same system prompt and messages up to the first user message.
func (e *entry) opening() string {
	h := xxh3.New()
	for _, key := range []string{"system", "instructions"} {
		_, _ = h.Write(session.At(e.request, key))
	}
	for _, key := range []string{"messages", "input"} {
		list := session.At(e.request, key)
		if list.Kind() == json.String {
			_, _ = h.Write(list)
			break
		}
		for m := range list.Elements() {
			_, _ = h.WriteString(session.Text(m, "role"))
			_, _ = h.Write(session.At(m, "content"))
			if session.Text(m, "role") == "user" {
				break
			}
		}
		if list.Kind() == json.Array {
			break
		}
	}
	sum := h.Sum128().Bytes()
	return "log-" + hex.EncodeToString(sum[:8])
}

// time returns the time of a call, in nanoseconds since 1970, or 0 if it is unknown.
func (e *entry) time() int64 {
	for _, key := range []string{"startTime", "start_time", "timestamp", "created_at", "time"} {
		v, ok := e.raw.Get(key)
		if !ok {
			continue
		}
		if text, ok := v.Text(); ok {
			return session.Nanoseconds(text)
		}
		switch f, _ := v.Float64(); {
		case f > 0 && f < 1e10:
			return int64(f * 1e9)
		case f >= 1e11 && f < 1e13:
			return int64(f * 1e6)
		}
	}
	return 0
}
