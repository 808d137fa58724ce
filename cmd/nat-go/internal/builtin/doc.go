// Package builtin lists the components that nat-go itself provides: sources, builders and trainer adapters.
//
// In a run, built-in builders are served by this program in a separate process, like third-party ones, so that the
// plugin protocol is always tested. `nat-go collate` and package inspect call the built-in builders in their own
// process.
package builtin
