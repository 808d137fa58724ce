// Package group forms the groups that builders work on if their unit is coarser than the example: tasks, or whole
// collection runs. The examples may come from any source, in any order and number.
//
// # How
//
// Every example goes through Add once. It is encoded, compressed and appended to a spool, a temporary file; its
// location there goes into a fixed-width entry together with a hash of its task and its position in the source. The
// entries are sorted externally by task, which gives the position of each task's first member, and then again by that
// position, so groups are ordered by their first member, and the examples in a group are in source order.
//
// # Why a spool and not offsets into the input
//
// An input may be compressed, or it may be a live service that can't be read again; an example may span several lines;
// and an example's name depends on all examples before it ("id#2"). The spool holds the source's output, so none of
// this matters, nothing is parsed twice, and no source needs grouping code of its own. It takes about a quarter of the
// uncompressed input's size, and is unlinked as soon as it has been opened, so a crash leaves nothing behind.
//
// # Limits
//
// A whole group is held in memory. A group that exceeds the limits is refused entirely, because part of a task would
// silently lead to wrong advantages and wrong choices. Only one of its members is kept, to identify it.
package group
