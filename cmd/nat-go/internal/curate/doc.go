// Package curate decides whether each record of a run, from any builder, is trained on, used for validation, or dropped
// with a reason.
//
// There are two layers. Gate examines one record with its content and says whether it is fit for training. Decide works
// on an index of all records, one fixed-width Entry each, and never on text: contradictions, then duplicates, then the
// sample, then the split. It returns one byte per record, by ordinal; every row format is a pure function of (record
// log, decisions).
//
// Design choices:
//   - Nothing holds a map of all records. Each rule sorts a projection of the index (package extsort): equal keys
//     become neighbours, in memory up to the budget and through a temporary file beyond it. One byte per record and
//     some twenty bytes per example stay in memory. Rows are few and narrow: with one row per rule and record, the
//     index would be a fifth of a run's memory.
//   - The order of arrival only decides which of several equal records is kept (the first). A sample consists of the
//     records with the smallest seeded hashes of their contents; a validation set, of the connected components with the
//     smallest seeded hashes.
//   - Contradictions are resolved before duplicates. Copies of one content may have different scores, and each may
//     contradict a record with its own score; dropping duplicates first would hide that.
//   - A side of the split is chosen for a connected component: records that share an example, a prompt or - if
//     requested, and always for rollouts - a task are never separated. Otherwise a validation score would mean little.
//   - NAT's own curation is the same path with other rules: no contradictions, split by position (see ByPosition).
package curate
