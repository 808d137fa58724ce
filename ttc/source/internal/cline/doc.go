// Package cline reads what Cline stores of its conversations: ~/.cline/data/sessions/ID/ID.messages.json, with the
// system prompt, and tasks/ID/api_conversation_history.json of earlier versions, without it. Both hold Anthropic's
// messages, in which calls are blocks, or XML in the model's text.
//
// A result that isn't text was sent as JSON. The definitions of tools aren't stored, and nothing shows which messages
// Cline omitted from a request because the context was full.
package cline
