// Package ballast holds memory that is never touched, and therefore takes up none, but counts for the garbage
// collector: without it the collector would run for every other frame of the built-in builders, which have little live
// memory at any time, and five times while a run starts.
//
// It is a package of its own without dependencies, so that it is initialised before all others. Memory requested once
// the collector has run may be reused memory, which is then cleared: in one run out of ten the ballast really took up
// its size.
package ballast
