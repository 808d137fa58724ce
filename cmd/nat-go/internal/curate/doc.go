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
//     become neighbours, in memory up to the budget and through a temporary file beyond it. Resident are one byte per
//     record and some twenty bytes an example. Rows are few and narrow, since with a row a rule and record the index is
//     a fifth of a run's memory.
//   - Arrival decides nothing but which of several equal records is kept (the first). A sample is the smallest
//     seeded hashes of the contents; a validation set the smallest seeded hashes of the connected components.
//   - Contradictions go before copies. A record that another score's copy would stand for still testifies for its own
//     score: the other way round, dropping it as a copy first would hide the contradiction.
//   - A side of the split is chosen for a connected component: records that share an example, a prompt or - as asked,
//     and for rollouts always - a task never part. That is what makes a validation score mean something.
//   - NAT's own curation is the same path with other rules: no contradictions, split by position (see ByPosition).
package curate
