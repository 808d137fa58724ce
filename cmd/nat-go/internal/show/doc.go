// Package show prints a record in readable form. It prints the record's origin, the messages of the prompt, and a
// preference's two answers side by side with the differing words marked.
//
// The content comes from models and tools, so it is made safe for the terminal: bidirectional overrides and invalid
// UTF-8 are printed as escapes. Words are compared with Myers' algorithm ("An O(ND) Difference Algorithm and Its
// Variations", 1986), up to a limit beyond which the rest counts as different. Widths are in terminal cells (Unicode
// UAX #11), so columns also line up for Chinese and emoji.
//
// The JSON output can't be used for training, because text may be truncated.
package show
