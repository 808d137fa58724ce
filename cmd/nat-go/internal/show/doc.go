// Package show prints a record as a person wants to read it: where it comes from, the prompt message by message, and
// the two answers of a preference side by side with the words marked in which they differ.
//
// Texts come from models and tools, so nothing of them reaches the terminal as a control: escape sequences,
// bidirectional overrides and what is no UTF-8 are printed as escapes (clean.go). Words are compared with Myers'
// algorithm ("An O(ND) Difference Algorithm and Its Variations", 1986), up to a limit beyond which the rest counts as
// different. Widths are those of terminal cells (Unicode UAX #11), so columns hold for Chinese and emoji too.
package show
