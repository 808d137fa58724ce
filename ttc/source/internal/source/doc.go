// Package source defines the contract of an input reader, and holds the code that all readers share: finding files,
// opening them whether or not they are compressed, and verifying that they are unchanged.
//
// A source yields one example at a time in input order, each with the cursor at which to continue after it. A source
// opened with a cursor rereads the input up to the cursor without yielding examples. This costs a fraction of the first
// read, needs no state on disk (such as the ids already seen), and proves with a rolling hash that the input is the
// same.
package source
