// Package readers is the front door to the readers of inputs: it lists them and names the little of them that the
// program uses directly.
package readers
