// Package exchange reads requests to a model and their responses, in the formats of the three APIs that agents use:
// OpenAI's chat completions, OpenAI's responses, and Anthropic's messages.
//
// Logs, exports and sessions contain these formats, in whole or in part; this package reads their common parts. A
// request and its response become messages in chat-template terms: a developer message is the system prompt, each tool
// result is a message, and a turn's text and calls form one message.
//
// A response that was streamed and logged piece by piece is reassembled first (Joined).
package exchange
