// Package scores gives examples scores that their input doesn't have.
//
// Scores are read from files that stand beside the input - of an evaluation, a judge, a test run - and joined by the
// examples' ids. An id that stands there twice with different scores has none: which of them counts, nobody knows.
//
// Rules give a score by what the result of a tool says, such as the last line of a test run, and keep the line they
// went by as evidence.
//
// A score from a file wins over one by a rule, and both win over one that the input has.
//
// Not part of the promised API.
package scores
