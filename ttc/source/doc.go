// Package source is the entry point to the code that all input readers share: the contract of a source, and finding and
// opening files. Package readers lists the sources themselves; package ttc/source/internal/source documents the
// contract.
package source
