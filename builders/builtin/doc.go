// Package builtin gives the program access to the builder of `--compat nat`, whose package is internal to the builders.
package builtin
