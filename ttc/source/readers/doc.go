// Package readers is the front door of package source: it lists every reader of inputs and names the little of them that
// the program uses directly.
package readers
