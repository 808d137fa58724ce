// Package builders is the contract of a trajectory builder: what it is given (a group of examples), what it emits (four
// kinds of record), what it says of itself.
//
// A builder is pure in (config, group): it may be called in any process, in any order, and again. It keeps no state
// from one group to the next, reads no clock and no random source, and so a run is deterministic and can be resumed.
//
// The content of a record is inline or a reference into the group, which the host resolves and checks. References are
// the fast path: a turn of eight candidates makes up to 28 pairs of the same eight texts.
//
// Part of the Go API we promise (v0).
package builders
