// Package scores reads scores that stand beside an input - of an evaluation, a judge, a test run - and gives them to
// the examples they are of, by their ids.
//
// A score from here wins over one that the input has. An id that stands there twice with different scores has none:
// which of them counts, nobody knows.
//
// Not part of the promised API.
package scores
