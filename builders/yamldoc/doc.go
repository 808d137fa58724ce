// Package yamldoc reads YAML into a tree whose nodes know where they were written, and places findings in it.
//
// yaml.v3 knows a node's line and column, but not its file once files inherit from each other, nor the value before a
// variable replaced it, nor which parts of a line are secret. A Document does. Aliases and merge keys are resolved when
// it is parsed, within limits, so that callers walk a plain tree.
package yamldoc
