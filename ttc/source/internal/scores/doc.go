// Package scores adds scores to examples, for inputs that lack them.
//
// Scores are read from files that accompany the input - from an evaluation, a judge, a test run - and joined to the
// examples by id. An id that occurs twice with different scores gets no score, because either may be correct.
//
// Rules derive a score from a tool result, such as the last line of a test run, and keep the matching line as
// evidence.
//
// A score from a file takes precedence over one from a rule, and both take precedence over one in the input.
package scores
