// Package candidates reads scored candidates from JSON lines, for users without NAT. A line holds one candidate, with
// the id of its example, its turn, prompt, output and score, or all answers to a prompt. The key names can be
// configured.
//
// Consecutive lines with the same id form an example, so only one example is in memory at a time, regardless of the
// file's size. Joining an id that reappears after another id's lines would require the whole file to be in memory.
// Instead, the later lines become a separate example, named id#2; such examples are counted and reported in a warning.
// Sorting the file by id avoids them.
package candidates
