// Package candidates reads scored candidates from JSON lines, for people without NAT: one candidate a line, with the id
// of its example, its turn, prompt, output and score. The keys can be named.
//
// Consecutive lines with one id form an example, so that one example is in memory at a time whatever the size of the
// file. An id that comes back later, after another id's lines, would need the whole file in memory to be joined; it is
// kept apart as an example of its own, named id#2, counted and warned about. `sort` by id mends such a file.
//
// Not part of the promised API.
package candidates
