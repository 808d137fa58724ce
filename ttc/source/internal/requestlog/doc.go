// Package requestlog reads logs of requests to a model and their responses, as written by clients, proxies and
// gateways: OpenAI's chat completions, Anthropic's messages and the payload that LiteLLM logs (`_type: chat`), and
// OpenAI's responses (`_type: responses`).
//
// An entry has the keys request and response (whose values are objects, JSON text, or objects with either of these
// under body), or is a payload of LiteLLM or a step of smolagents. It is one call, with exactly the messages that the
// model was given. Nothing is reconstructed, except for requests that refer to the previous response instead of
// repeating its messages. A call has the gap rebuilt_history if the server adds a conversation's messages to it, or
// if it has items of an unknown type, such as references to items. The calls that continue it have the gap, too.
//
// Calls that the log assigns to the same session belong together (session_id, conversation_id, thread_id, trace_id, or
// the session that Claude Code puts into a request). Without such an id, calls form a session if they begin with the
// same system prompt and the same messages, up to the first user message.
package requestlog
