// Package terminal prints texts of others - file names, answers of servers, output of plugins and trainers, flags - so
// that they can't steer the terminal that shows them.
//
// What moves the cursor, changes colours or the direction of writing, or is invisible becomes an escape as JSON has it,
// so that JSON that is printed stays the same JSON. A [Writer] does so with all that is written through it, except for
// the styles that [Style] makes: nobody can forget it, and nobody else can make one.
package terminal
