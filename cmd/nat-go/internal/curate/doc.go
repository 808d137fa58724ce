// Package curate decides whether each record of a run, from any builder, is trained on, used for validation, or dropped
// with a reason.
//
// There are two layers. Gate examines the content of one record and reports whether it is fit for training. Decide
// works on an Index with one fixed-width Entry, without text, per record. It handles contradictions, then duplicates,
// then the sample, then the split, and returns one byte per record, by ordinal. Text rows are built from the record log
// and these decisions.
//
// Design choices:
//   - There is no map of all records. The rules sort projections of the entries (package extsort), so that equal keys
//     become neighbours: in memory up to the budget, and with temporary files beyond it. Only one byte per record and
//     about ten bytes per task or example always stay in memory.
//   - Except in a split ByPosition, the order of arrival only decides which of several equal records is kept (the
//     first). A sample consists of the preferences with the smallest seeded hashes of their contents; a validation set
//     is filled with connected components in seeded-hash order.
//   - Contradictions are resolved before duplicates. Records with the same content may have differently named scores,
//     and each contradicts only records with its own; dropping duplicates first would hide that.
//   - The split assigns whole connected components: records that share an example, a prompt or - if requested, and
//     always for rollouts - a task are never separated. Otherwise a validation score would mean little.
//   - NAT's curation is the same code with other rules: contradictions are kept, and the split is ByPosition.
package curate
