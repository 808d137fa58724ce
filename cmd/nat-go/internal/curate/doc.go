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
//     become neighbours. Sorting takes place in memory up to the budget, and uses temporary files beyond it. Only one
//     byte per record and about ten bytes per task or example always stay in memory.
//   - Except in a split ByPosition, the order of arrival affects only which of several equal records is kept, namely
//     the first. A sample consists of the preferences with the smallest seeded hashes of their contents. A validation
//     set is filled with connected components in seeded-hash order.
//   - Contradictions are resolved before duplicates. Records with the same content may have differently named scores,
//     and a record contradicts only records with the same score name. If duplicates were dropped first, some of these
//     names would be lost.
//   - The split assigns whole connected components. Records that share an example or a prompt are never separated, and
//     neither are records that share a task if they are rollouts or if this was requested. Otherwise, validation scores
//     would mean little.
//   - NAT's curation is the same code with other rules, which keep contradictions and split ByPosition.
package curate
