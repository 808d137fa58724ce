// Package rows writes records as text rows, without a tokenizer. Each consumer's format is in its own source file
// (customizer.go, trl.go, ...).
//
// A format either carries a record without losing anything a trainer reads, or rejects it with a reason; it never
// flattens a part that it can't express. All rows in a file have the same shape. A trainer tokenises text rows itself,
// with its own chat template and its own choice of trained text. For exact masks, use token batches.
//
// In most formats a record becomes one row. In kto a preference becomes two, in trl a demonstration becomes one for
// each trained turn, and in verl and atropos a task's rollouts share rows (Format.Together). verl reads Parquet: a
// Table writes the same JSON rows with a fixed schema and EachTableRow returns them, so all code that reads rows sees
// the same form.
//
// The same strings occur in many of a group's rows (eight candidates produce up to 28 pairs), so an Encoder escapes
// each string once per group and copies bytes from then on. A string that isn't UTF-8 is also checked once: its escaped
// form is parsed back and compared before its first use. The rest of a row is a fixed skeleton.
package rows
