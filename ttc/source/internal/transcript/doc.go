// Package transcript splits conversations that are written as a single string, with each message preceded by its
// speaker's name, as in Anthropic's HH-RLHF ("Human: ... Assistant: ...") and similar fine-tuning data sets.
package transcript
