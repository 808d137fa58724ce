// Package terminal prints external text - file names, servers' answers, the output of plugins and trainers, flags - so
// that it can't control the terminal that displays it.
//
// Anything that moves the cursor, changes colours or the text direction, or is invisible becomes a JSON escape, so
// printed JSON keeps its meaning. A [Writer] does this to everything written through it, except for the styles that
// [Style] makes. Callers therefore can't forget it, and external text can't contain a style.
package terminal
