// Package ledger accounts for every item of a run. It defines reasons for dropping items, records each drop with its
// reason and location, and keeps counters that must balance.
//
// A stage is one step of the run (source, builder, gate, ...). Its accounts, one per unit, count the items that enter
// it: the input equals the output plus the drops, and each drop is counted once, with one reason. A run whose
// accounts don't balance fails, because a data set must never shrink silently.
//
// Each reason is defined in the package that uses it, along with its page for `nat-go explain`; reasons used by several
// packages are defined here. Third-party reasons are namespaced ("acme/too_short") and don't need a page.
//
// Part of the supported Go API (v0).
package ledger
