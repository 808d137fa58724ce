// Package codex reads the sessions of Codex: the files under ~/.codex/sessions.
//
// A file is a thread, with its items in order, both the model's output and its input. The items record how far the
// model had read when it wrote them (sampled_through_sequence); in older files, which lack this key, an answer ends
// at the first item that isn't the model's. A fork stores the position in its parent's file at which it begins, so
// reading it requires the parent's file. The answers before the fork belong to the parent, and are context in the
// fork.
//
// A rollback names only a number of turns. The reader determines the turns that it removed, and marks the calls after
// it.
//
// Reasoning is stored encrypted, and tool definitions usually aren't stored at all. The calls are marked accordingly.
package codex
