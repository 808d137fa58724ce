// Package builtin is the front door of the built-in builders: what the program uses of them besides the builders
// themselves, which are packages of their own.
package builtin
