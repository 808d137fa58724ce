// Package yamldoc reads YAML into a tree whose nodes record where they were written, and attaches findings to those
// positions.
//
// yaml.v3 records a node's line and column, but not its file once files inherit from each other, nor a scalar's text
// before variables were replaced, nor which parts of a line are secret. A Document records all of these. Aliases and
// merge keys are resolved at parse time, within limits, so that callers walk a plain tree.
package yamldoc
