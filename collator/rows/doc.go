// Package rows writes records as text rows: one file per consumer (customizer.go, trl.go, ...), without a tokenizer.
//
// A format either carries a record without losing anything a trainer reads, or refuses it with the reason; it never
// flattens a part that it can't express. All rows of a file have the same shape. A trainer tokenises text rows itself,
// with its own chat template and its own choice of trained text: for exact masks, use token batches.
//
// A record makes one row in most formats; a preference makes two in kto, a demonstration one for each trained turn in
// trl, and in verl and atropos the rollouts of a task share rows (Format.Together). verl reads Parquet: a Table writes
// the same JSON rows with a fixed schema and EachTableRow returns them, so everything that reads rows sees one form.
//
// The texts of a group occur in many of its rows (eight candidates make up to 28 pairs), so an Encoder escapes each
// text once per group and copies bytes from then on. A text that isn't UTF-8 is also checked once: its escaped form is
// parsed back and compared before its first use. The rest of a row is a fixed skeleton.
package rows
