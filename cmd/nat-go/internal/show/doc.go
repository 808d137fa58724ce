// Package show prints a record in readable form. It prints where the record comes from, the prompt message by message,
// and a preference's two answers side by side with the differing words marked.
//
// The content comes from models and tools, so nothing in it reaches the terminal as a control code. Escape sequences,
// bidirectional overrides and invalid UTF-8 are printed as escapes. Words are compared with Myers' algorithm
// ("An O(ND) Difference Algorithm and Its Variations", 1986), up to a limit beyond which the rest counts as different.
// Widths are in terminal cells (Unicode UAX #11), so columns also line up for Chinese and emoji.
//
// Its JSON output is meant for reading and isn't a row format, because text may be truncated.
package show
