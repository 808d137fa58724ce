// Package ledger keeps the books of a run: every reason a thing can be dropped for, every drop with its place, and
// counters that must balance.
//
// A stage is one step of the run (source, builder, gate, ...). Its books are kept in the unit that enters it: what came
// in equals what went on plus what was dropped, once, with one reason. A run whose books don't balance fails: a data set
// that silently shrank is the defect this program exists to prevent.
//
// All codes - drop reasons and config findings - live in one registry (codes.go), so that `nat-go explain CODE` has a
// page for each. Reasons of third parties are namespaced ("acme/too_short") and need no entry.
package ledger
