// Package evidence reads from the result of a tool call whether the call failed.
//
// What stands there counts by its place and by how much of the result it is, never by the tool's name. An exit code
// decides, where a harness shows one. A JSON object is an error when it consists of what errors consist of; with other
// members it is a record of something that was asked about. In a text an error stands first or last; a log, a mail, a
// manual, source code or a list of search results is about errors of others, wherever the word stands.
//
// The work is bounded: of a long text only its first and last lines are looked at, each up to a length.
package evidence
