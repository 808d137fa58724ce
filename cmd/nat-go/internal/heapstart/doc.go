// Package heapstart keeps the garbage collector from running while the program is initialised: by default it runs for
// each of the first 4 MiB, and nearly all of what packages allocate there stays.
//
// It is a package of its own without dependencies, so that it is initialised before all others. Command line tuning
// takes over in main.
package heapstart
