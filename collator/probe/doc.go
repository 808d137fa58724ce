// Package probe finds out what a chat template does with conversations: which messages it takes and where it puts them,
// what it trims, drops, hoists and rewrites, what it adds, and how it ends a turn.
//
// It renders tiny conversations whose texts occur nowhere else and reads the origin of every byte of the result: a
// template is judged by what it does, not by its name. What is learned decides how a hint can be worded into the
// context, whether a trajectory can be one row, and what is refused; `nat-go chat probe` prints it.
//
// Not part of the promised API.
package probe
