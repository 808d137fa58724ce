// Package kit holds the checks that a builder plugin has to pass. `nat-go builders verify` runs them, and so does
// package plugins/conformance in an author's tests.
//
// Each check has a name and a one-line description of the expected behaviour, and starts its own instance of the
// plugin, so that one failure does not hide another. Checks of a builder's results use built-in groups or the
// author's. If a builder returns nothing for them, the check is reported as skipped.
package kit
