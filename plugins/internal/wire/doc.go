// Package wire converts groups and records to frames of the builder protocol and back. It is the only package that
// converts between the Go types (ttc, builders) and the generated ones (plugins/proto).
//
// GroupWriter and RecordWriter split their input into frames by size, so that neither a group of hundreds of MiB nor
// a single huge text results in a huge message; GroupReader and RecordReader reassemble the pieces, within limits. A
// group that has passed through both sides equals the one that was sent, except for the data that plugins don't get
// (see ExampleCodec).
//
// All text in a frame's part is sent as one blob and decoded as substrings of it, which takes one copy and one
// allocation, regardless of the number of strings. Each string keeps the whole blob in memory. Repeated strings and
// prompts in a group are sent once. Preferences between candidates, the most frequent records, are sent as columns of
// indices.
//
// Finding is the protocol's own type. Unlike package finding's, it lacks a position in a file, which only the host
// knows.
//
// Readers don't trust their input. An index out of range, a text that ends before it starts, an unknown enum value,
// or a repeated or missing part results in an error that describes the problem, never in a panic.
//
// Examples have only one serialisation, because the files in which they are stored for grouping (ExampleCodec) also
// contain protocol frames.
package wire
