// Package builders defines the contract of a trajectory builder: its input (a group of examples), its output (five
// kinds of record), and how it describes itself.
//
// A builder is a pure function of its config and the group: it may be called in any process, in any order, and more
// than once. It keeps no state between groups and reads neither the clock nor a random source, which makes a run
// deterministic and resumable.
//
// A record's content is inline or a reference into the group. The host resolves and checks references. They are faster
// than inline content: eight candidates for a turn form up to 28 pairs from the same eight outputs.
//
// Many names are exported because each kind of record is its own struct and each drop reason has a name.
//
// Part of the Go API we promise (v0).
package builders
