// Package candidates reads scored candidates from JSON lines, for users without NAT: one candidate per line, with the
// id of its example, its turn, prompt, output and score, or all answers to a prompt per line. The key names can be
// configured.
//
// Consecutive lines with one id form an example, so that one example is in memory at a time, for any size of the file.
// Joining an id that reappears after another id's lines would need the whole file in memory; it becomes an example of
// its own, named id#2, counted and warned about. Sorting the file by id fixes that.
package candidates
