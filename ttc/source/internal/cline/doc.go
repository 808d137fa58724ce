// Package cline reads the conversations that Cline stores: ~/.cline/data/sessions/ID/ID.messages.json, with the system
// prompt, and, from earlier versions, tasks/ID/api_conversation_history.json, without it. Both hold messages in
// Anthropic's format, with calls as blocks or as XML in the model's text.
//
// A result that isn't text was sent as JSON. Tool definitions aren't stored, and nothing shows which messages Cline
// omitted from a request because the context was full.
package cline
