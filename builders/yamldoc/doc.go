// Package yamldoc reads YAML into a tree whose nodes record their positions in the source, and attaches findings to
// these positions.
//
// yaml.v3 records a node's line and column. A Document also records the node's file, because files may inherit from
// each other, a scalar's text before variables were replaced, and the secret parts of a line. Aliases and merge keys
// are resolved at parse time, within limits, so that callers get a plain tree.
package yamldoc
