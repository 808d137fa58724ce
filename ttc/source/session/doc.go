// Package session is what readers of stored sessions share: finding their files, and making a source of the sessions
// they read.
//
// All that is named - files, patterns, folders with all that is in them - is one input, and its sessions come in the
// order of their ids, so that how they lie in files decides nothing. One session is in memory at a time.
//
// Every call to a model is counted, as the unit "call": it is trained in one example, or dropped with a reason.
//
// Not part of the promised API.
package session
