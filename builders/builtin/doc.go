// Package builtin lets the program use the builder for `--compat nat`, which is in a package internal to builders.
package builtin
