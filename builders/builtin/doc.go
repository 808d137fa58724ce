// Package builtin gives the program access to the builder behind `--compat nat`, whose package is internal to builders.
package builtin
