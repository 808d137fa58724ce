// Package exchange reads requests to a model and the responses to them, in the shapes of the three APIs that agents
// speak: OpenAI's chat completions, OpenAI's responses, Anthropic's messages.
//
// Logs, exports and sessions hold these shapes, whole or in pieces; what is read here is the same in each of them. A
// request and its response become messages in the words of chat templates: a developer is the system, each result of a
// tool is a message, the text and the calls of one turn are one message.
//
// A response that was streamed and logged piece by piece is put together first (Joined).
//
// Not part of the promised API.
package exchange
