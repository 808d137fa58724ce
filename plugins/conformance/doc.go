// Package conformance checks that a program is a good builder plugin: what the protocol requires, what a host relies
// on, and what authors tend to forget. `nat-go builders verify BINARY` runs it; Test runs it in an author's Go tests.
//
// Each check has a name, says in one line what it expects, and starts its own instance of the plugin, so that one
// failure does not hide another. Checks of what a builder makes of groups use our own groups or the author's; if a
// builder makes nothing of them the check is skipped and says so.
//
// Harness serves a plugin in memory, through the real protocol, for an author's own tests of a builder.
package conformance
