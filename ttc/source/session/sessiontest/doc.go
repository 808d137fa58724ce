// Package sessiontest helps to test the sources of stored sessions: it reads files through a source, as a run does, and
// shows the graphs in short.
//
// Not part of the promised API.
package sessiontest
