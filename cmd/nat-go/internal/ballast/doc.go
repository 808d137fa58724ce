// Package ballast holds memory that is never touched, and so takes none, but counts for the garbage collector: without
// it the collector would run for every other frame of the built-in builders, which have little alive at a time, and
// five times while a run starts.
//
// It is a package of its own, which needs no other, to be initialized before them. Memory that is asked for once the
// collector has run may lie where something was freed, and is then cleared: one run in ten took all of its ballast in
// earnest.
package ballast
