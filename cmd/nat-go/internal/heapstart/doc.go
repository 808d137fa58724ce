// Package heapstart keeps the garbage collector from running while the program is initialised: by default it runs as
// soon as the heap reaches 4 MiB, and nearly everything that packages allocate then stays live.
//
// It is a separate package that imports only os and runtime/debug, so that it is initialised before most
// others. Package cli tunes the collector again when the program starts.
package heapstart
