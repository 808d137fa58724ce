// Package transcript splits conversations that are written as one text, each message behind its speaker's name, as in
// Anthropic's HH-RLHF ("Human: ... Assistant: ...") and data sets for fine-tuning made like it.
//
// Not part of the promised API.
package transcript
