// Package chat answers what a chat template and a tokenizer make of conversations and texts, JSON lines in and out:
// `nat-go chat render|mask|tokens`. Every request has one answer line, in order, also a malformed one; answers are
// ASCII.
package chat
