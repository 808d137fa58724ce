// Package group forms the groups that builders of a coarser unit than the example work on - tasks, or whole collection
// runs - out of any source, whatever the order of its examples and however large it is.
//
// # How
//
// Every example goes through Add once. It is encoded, compressed and appended to a spool, a temporary file; its place
// there goes into a fixed-width entry beside a hash of its task and its position. The entries are sorted by task
// outside memory, which finds the position of each task's first member, and once more by that: the order of groups is
// that of their first members, the order within a group that of the source.
//
// # Why a spool and not offsets into the input
//
// An input may be compressed or a live service, of which nothing can be read again; an example may be several lines;
// and the name of an example depends on all before it ("id#2"). The spool holds what the source made of its input, so
// that none of this matters, nothing is parsed twice, and every source can be grouped without a line of its own. It
// takes about a quarter of the uncompressed input, and is unlinked as soon as it is open: nothing is left behind by a
// crash.
//
// # Limits
//
// A group is in memory as a whole. One that outgrows the limits is refused whole, before it is loaded: part of a task
// would give wrong advantages and wrong choices without anyone noticing.
//
// Not part of the promised API.
package group
