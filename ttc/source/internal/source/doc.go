// Package source defines the interface of an input reader, and contains the code that all readers share: code to find
// files, to open them, compressed or not, and to verify that they are unchanged.
//
// A source yields one example at a time, in input order, with a cursor at which reading can continue after it. A
// source opened with a cursor rereads the input up to the cursor without yielding examples. This takes a fraction of
// the time of the first read, requires no state on disk (such as the ids seen so far), and verifies with a rolling
// hash that the input is the same.
package source
