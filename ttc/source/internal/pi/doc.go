// Package pi reads the sessions of Pi and of the programs built on it: OpenClaw and OMP.
//
// A file is a session. It consists of a header and entries, which name their parents and thus form a tree. A call's
// context consists of the messages on the path from the root to the call. A compaction names the first entry that it
// keeps, even if this entry lacks a message. A summary replaces the messages before that entry. If the entry isn't on
// the path, the compaction is counted and only its summary remains.
//
// The system prompt and the tools are not stored, and arguments are stored as values. The calls are marked accordingly.
package pi
