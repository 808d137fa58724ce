// Package codex reads the sessions of Codex: what lies under ~/.codex/sessions.
//
// A file is a thread: its items in order, what the model wrote and what it was given. The items say how far the model
// had read when it wrote them (sampled_through_sequence); where they don't, in older files, an answer ends with the
// first item that isn't the model's. A fork names the place in its parent's file that it begins at, so the parent's
// file has to be there; the answers before the fork are the parent's, and are context in the fork.
//
// The reasoning is stored encrypted, and the definitions of the tools mostly not at all: the calls say so.
//
// Not part of the promised API.
package codex
