// Package conformance checks that a program is a well-behaved builder plugin. It covers the protocol's requirements,
// assumptions that hosts make, and common mistakes by authors. `nat-go builders verify BINARY` runs it; Test runs it in
// an author's Go tests.
//
// Each check has a name, states its expectation in one line, and starts its own instance of the plugin, so that one
// failure does not hide another. Checks of a builder's results use our own groups or the author's; if a builder returns
// nothing for them, the check is reported as skipped.
//
// Harness serves a plugin in memory, through the real protocol, for an author's own tests of a builder.
package conformance
