// Package builders defines the interface of a trajectory builder: its input (a group of examples), its output (five
// kinds of record), and its description.
//
// A builder is a pure function of its config and the group: it may be called in any process, in any order, and more
// than once. It keeps no state between groups and reads neither the clock nor a random source, which makes a run
// deterministic and resumable.
//
// A record's content is inline or a reference into the group. The host resolves and checks references. They are
// faster than inline content, because eight candidates for a turn form up to 28 pairs from the same eight outputs.
//
// Each kind of record has its own struct, and each drop reason has an exported name.
//
// Part of the supported Go API (v0).
package builders
