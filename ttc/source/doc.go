// Package source is the contract of a reader of inputs, and what all readers share: finding the files, opening them
// plain or compressed, knowing them again.
//
// A source hands out one example at a time in the order of its inputs, and with each a cursor: where to go on after it.
// A source that is opened with a cursor reads what lies before it again without handing it out; it costs a fraction of
// the first reading, needs no state on disk (ids already seen, say), and proves by a rolling hash that the input is the
// same.
//
// Not part of the promised API.
package source
