// Package heapstart prevents the garbage collector from running while the program is initialised. By default, the
// collector runs as soon as the heap reaches 4 MiB, when nearly all memory that packages have allocated is still
// live.
//
// It is a separate package that imports only os and runtime/debug, so that it is initialised before most others.
// Package cli tunes the collector again when the program starts.
package heapstart
