// Package sessiontest helps test the sources of stored sessions: it reads files through a source, as a run does, and
// prints the graphs in a short notation.
package sessiontest
