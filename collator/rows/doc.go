// Package rows writes records as text rows: one file per consumer (customizer.go, trl.go, ...), no tokenizer.
//
// A format either carries a record without losing anything a trainer reads, or refuses it with the reason; it never
// flattens what it can't express. One file holds one shape. A trainer of text rows tokenises them itself, with its own
// chat template and its own idea of what is trained: exact masks are the business of token batches.
//
// A record makes one row in most formats; a preference makes two of kto, and in verl and atropos the rollouts of a task
// share rows (Format.Together). verl reads Parquet: a Table takes the same JSON rows by a fixed schema and gives them
// back, so that all that reads rows has one form of them.
//
// The texts of a group stand in many of its rows (eight candidates make up to 28 pairs), so an Encoder escapes each
// distinct text once a group and afterwards copies bytes. That text is checked once, too: it is parsed back and
// compared before it is first used, and the rest of a row is a fixed skeleton.
//
// Not part of the promised API.
package rows
