// Package readers is the entry point to the input readers: it lists them and names the few parts that the program uses
// directly.
package readers
