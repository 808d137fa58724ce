// Package show prints a record for reading: where it comes from, the prompt message by message, and the two answers of
// a preference side by side with the differing words marked.
//
// Texts come from models and tools, so nothing in them reaches the terminal as a control code: escape sequences,
// bidirectional overrides and invalid UTF-8 are printed as escapes (clean.go). Words are compared with Myers' algorithm
// ("An O(ND) Difference Algorithm and Its Variations", 1986), up to a limit beyond which the rest counts as different.
// Widths are in terminal cells (Unicode UAX #11), so columns line up for Chinese and emoji too.
//
// Its JSON is for reading, and not a row format: texts may be cut.
package show
