// Package builtin is the front door of the built-in builders: it has the parts that the program uses besides the
// builders themselves, which are packages of their own.
package builtin
