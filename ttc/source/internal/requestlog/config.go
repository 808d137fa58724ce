package requestlog

import (
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// extensions are the file name extensions of logs.
var extensions = []string{".jsonl", ".json", ".ndjson", ".log"}

// keys lists the keys that identify entries: each entry has at least one of them.
var keys = []string{"request", "litellm_call_id", "model_input_messages"}

// Chat returns the source for logs of chat completions and Anthropic's messages.
func Chat() source.Factory {
	return factory("chat", "OpenAI's chat completions and LiteLLM 1.106.2; Anthropic's messages are read as documented",
		"logs of requests: chat completions (OpenAI and compatible APIs, LiteLLM's payload), Anthropic's messages",
		func(e *entry) bool { return !e.isResponses() })
}

// Responses returns the source for logs of the Responses API.
func Responses() source.Factory {
	return factory("responses", "the Responses API", "logs of requests: OpenAI's responses", (*entry).isResponses)
}

func factory(typ, tried, doc string, ours func(*entry) bool) source.Factory {
	return session.Format{
		Type: typ, Tried: tried, Doc: doc, Extensions: extensions,
		Recognize: session.Marked(func(raw json.Raw) bool {
			e, ok := entryOf(raw)
			return ok && ours(&e)
		}, keys...),
		Entries: func(tally *source.Tally) session.Entries { return entries(tally, ours) },
	}.Factory()
}
