// Package heapstart keeps the garbage collector from running while the program is initialised: by default it runs as
// soon as the heap reaches 4 MiB, and nearly everything that packages allocate then stays live.
//
// It is a separate package without dependencies, so that it is initialised before all others. The tuning in package cli
// takes over in main.
package heapstart
