// Package ledger keeps the books of a run: every reason a thing can be dropped for, every drop with its place, and
// counters that must balance.
//
// A stage is one step of the run (source, builder, gate, ...). Its books are kept in the unit that enters it: the input
// equals the output plus the drops, each counted once, with one reason. A run whose books don't balance fails: a data
// set that silently shrinks is the defect this program exists to prevent.
//
// A reason is defined in the package that gives it, with its page for `nat-go explain`; reasons given by several
// packages are defined here. Reasons of third parties are namespaced ("acme/too_short") and need no page.
//
// Part of the Go API we promise (v0).
package ledger
