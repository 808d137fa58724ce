// Package ballast holds memory that is never touched, and so takes none, but counts for the garbage collector: without it the
// collector would run for every other frame of the built-in builders, which have little alive at a time, and five times while
// a run starts.
//
// It is a package of its own, which needs no other, to be initialized before them. Memory that is asked for once the
// collector has run may lie where something was freed, and is then cleared: one run in ten took all of its ballast in earnest.
package ballast

// Bytes is as much as a heap may grow by before it is collected, where the collector is left as it is (GOGC=100). Twice as
// much saves three per cent of a run and takes 20 MiB more where the machine is busy.
var Bytes = make([]byte, 12<<20)
