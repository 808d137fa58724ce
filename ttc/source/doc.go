// Package source is the entry point to the code that all input readers share: a source's contract, and code to find and
// open files. Package readers lists the sources themselves; package ttc/source/internal/source documents the contract.
package source
