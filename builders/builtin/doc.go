// Package builtin exports the builder for `--compat nat`, which is in a package internal to builders.
package builtin
