// Package builtin is the single list of the components that nat-go itself provides: sources, builders, trainer
// adapters. Adding one takes one line.
//
// Built-in builders run like third-party ones: in a separate process, served by this program, so there is only one path
// and it is always tested.
package builtin
