// Package readers lists the input readers, and exports the few parts of them that the program uses directly.
package readers
