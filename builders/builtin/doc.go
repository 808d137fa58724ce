// Package builtin is the entry point to the built-in builders: it holds the parts that the program uses in addition to
// the builders, each of which has its own package.
package builtin
