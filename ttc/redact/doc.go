// Package redact removes secrets and personal data from what agents left behind, before anything is written.
//
// Each finding is replaced by a tag that says what it was, "<REDACTED:email:3>". One value has one tag
// throughout a data set, in texts, reasoning, arguments and results alike, so that what an agent copied from a result
// into a call is still a copy. A tag within a turn is not trained (see Tags): a model shouldn't learn
// to write it.
//
// # Why rules of our own
//
// The rules are the published shapes of keys, verified by their checksum if they have one and otherwise by how random
// they look, plus internal/secret for anything named like a secret. gitleaks' library brings some eighty modules (a
// configuration framework, archives, a regular expression engine in WebAssembly), looks only for keys, and doesn't
// report the exact range to replace. The function keys is long because it is a table, one kind of key a line.
//
// No value is kept for longer than it takes to redact its example: what was seen is remembered by its hash.
//
// Not part of the promised API.
package redact
