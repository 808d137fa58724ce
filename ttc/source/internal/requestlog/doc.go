// Package requestlog reads logs of requests to a model and their responses, as written by clients, proxies and
// gateways: OpenAI's chat completions, Anthropic's messages and the payload that LiteLLM logs (`_type: chat`), and
// OpenAI's responses (`_type: responses`).
//
// An entry has the request and the response under these names (as objects, as text, or each with its content under
// body), or is a payload of LiteLLM or a step of smolagents. It is one call, with exactly the messages it was given:
// nothing is reconstructed, except for requests that refer to the previous response instead of repeating its messages.
//
// The log decides which calls belong together (session_id, conversation_id, thread_id, trace_id; the session that
// Claude Code puts into a request). If it doesn't say, calls that begin with the same system prompt and the same
// messages up to the user's first form a session.
package requestlog
