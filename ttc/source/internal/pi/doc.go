// Package pi reads the sessions of Pi and of the programs built on it: OpenClaw and OMP.
//
// A file is a session: a header, then entries that name their parents and so form a tree. A call's context consists of
// the messages on the path from the root to it. A compaction names the first entry that it keeps, which may be one
// without a message; a summary replaces the messages before that entry. If that entry isn't on the path, the compaction
// is counted and only its summary remains.
//
// The system prompt and the tools are not stored, and arguments are stored as values. The calls are marked accordingly.
package pi
