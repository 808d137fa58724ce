// Package ttc holds what an agent run leaves behind, as plain types without I/O: examples with their graph of messages,
// the steps and candidates recorded on the way, and the groups builders work on. (TTC is NAT's "test-time compute": the
// step in which several candidates are considered.)
//
// Text is WTF-8 (see package chat). Everything here is read-only once a source has handed it out.
//
// Part of the Go API we promise (v0).
package ttc
