// Package session holds the code that readers of stored sessions share: finding their files, and turning the sessions
// they read into a source.
//
// Everything the user names - files, patterns, folders with all their content - is one input, and its sessions are
// ordered by id, regardless of their arrangement in files. One session is in memory at a time.
//
// Every model call is counted under the unit "call". It is either trained on in one example or dropped with a reason.
package session
