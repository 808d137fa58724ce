// Package candidates reads scored candidates from JSON lines, for users without NAT. A line holds one candidate, with
// the id of its example, its turn, prompt, output and score, or all answers to a prompt. The key names can be
// configured.
//
// Consecutive lines with the same id form an example, so only one example is in memory at a time, regardless of the
// file's size. If an id reappears after lines with another id, joining its lines would require the whole file in
// memory. Instead, the later lines become a separate example, named id#2. A warning reports the number of such
// examples. Sorting the file by id avoids them.
package candidates
