// Package conformance tests builder plugins: in an author's Go tests, Test runs the checks of `nat-go builders verify`
// against a program, and BuildWith sends groups through a builder in memory.
//
//	func TestPlugin(t *testing.T) {
//		conformance.Test(t, conformance.Options{Path: "bin/my-plugin"})
//	}
//
// The checks cover the protocol's requirements, assumptions that hosts make, and common mistakes by authors. Each one
// starts its own instance of the plugin, so that one failure does not hide another. Checks of a builder's results use
// built-in groups or the author's. If a builder returns nothing for them, the check is skipped.
//
// Part of the supported Go API (v0).
package conformance
