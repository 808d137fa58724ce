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
// An input may be compressed, or may be a live service that can't be read again. An example may span several lines,
// and its name depends on all examples before it ("id#2"). Because the spool holds the source's output, grouping
// works in all these cases, parses nothing twice, and doesn't need code in the sources. It takes about a quarter of
// the uncompressed input's size, and is unlinked as soon as it is opened, so that it does not remain after a crash.
//
// # Limits
//
// A whole group is held in memory. A group that exceeds the limits is refused entirely, because an incomplete task
// would silently lead to wrong advantages and wrong choices. Only one of its members is kept, to identify it.
package group
