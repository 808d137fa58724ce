// Package source is the front door of what all readers of inputs share: the contract of a source, and finding and
// opening files. Package readers lists the sources themselves; package ttc/source/internal/source has the contract in
// words.
package source
