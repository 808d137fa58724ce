// Package requestlog reads logs of requests to a model and the responses to them, as clients, proxies and gateways
// write them: OpenAI's chat completions, Anthropic's messages and the payload that LiteLLM logs (`_type: chat`), and
// OpenAI's responses (`_type: responses`).
//
// An entry has the request and the response under these names - as objects, as texts, or each with the body under body
// - or is a payload of LiteLLM. It is one call, with exactly the messages it was given: nothing is put together, but
// for requests that name the response before them in place of its messages.
//
// Which calls belong together is what the log says (session_id, conversation_id, thread_id, trace_id; the session that
// Claude Code puts into a request). Where it says nothing, those that begin with the same system prompt and first
// message are one session.
//
// Not part of the promised API.
package requestlog
