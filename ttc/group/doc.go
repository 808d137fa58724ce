// Package group forms the groups of examples for builders whose unit is a task or a whole collection run. The examples
// may come from any source, in any order and number.
//
// # How
//
// Every example goes through Add once. It is encoded, compressed and appended to a spool, which is a temporary file. A
// fixed-width entry records its location in the spool, a hash of its task, and its position in the source. An external
// sort of the entries by task finds each task's first member. A second sort, by the first member's position, puts the
// groups in the order of their first members, and each group's examples in source order.
//
// # Why a spool and not offsets into the input
//
// An input may be compressed, or it may be a live service that can't be read again; an example may span several lines;
// and an example's name depends on all examples before it ("id#2"). The spool holds the source's output, so grouping
// works for all of these, parses nothing twice, and needs no code in the sources. It takes about a quarter of the
// uncompressed input's size, and is unlinked as soon as it has been opened, so a crash leaves nothing behind.
//
// # Limits
//
// A whole group is held in memory. A group that exceeds the limits is refused entirely, because part of a task would
// silently lead to wrong advantages and wrong choices. Only one of its members is kept, to identify it.
package group
