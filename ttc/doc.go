// Package ttc defines the results of an agent run as plain types without I/O: examples with their graph of messages,
// the steps and candidates recorded along the way, and the groups that builders work on. (TTC is NAT's "test-time
// compute": the step in which several candidates are considered.)
//
// Text is WTF-8 (see package chat). Everything here is read-only once a source has returned it.
//
// Part of the supported Go API (v0).
package ttc
