// Package redact takes secrets and personal data out of what agents left, before anything is written.
//
// What is found is replaced by a placeholder that says what it was, "<REDACTED:email:3>". One value has one placeholder
// throughout a data set, in texts, reasoning, arguments and results alike, so that what an agent copied from a result
// into a call still is a copy. A placeholder within a turn is not trained (see Placeholders): a model shouldn't learn
// to write it.
//
// # Why rules of our own
//
// The rules are the published forms of keys, those that have a checksum checked by it, the others by how random they
// look, and internal/secret for whatever is named like one. The library of gitleaks brings some eighty modules (a
// configuration framework, archives, a regular expression engine in WebAssembly), looks for keys only, and gives no
// place within the value that is to be replaced.
//
// Nothing keeps a value: what was seen is remembered by its hash.
//
// Not part of the promised API.
package redact
