// Package probe finds out what a chat template does with conversations: which messages it accepts and where it puts
// them, what it trims, drops, hoists and rewrites, what it adds, and how it ends a turn.
//
// It renders tiny conversations with unique texts and reads the origin of every byte of the result: a template is
// judged by what it does, not by its name. The findings decide how a hint can be placed in the context, whether a
// trajectory can be one row, and what is refused; `nat-go chat probe` prints them.
//
// Not part of the promised API.
package probe
