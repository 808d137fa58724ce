// Package source exports the code that all input readers share: the interface of a source, and functions that find
// and open files. Package readers lists the sources, and package ttc/source/internal/source documents the interface.
package source
