// Package extsort sorts more fixed-width entries than fit in memory.
//
// An entry is a row of bytes, and entries are sorted in byte order, so keys are big-endian, with the most significant
// field first, and don't need a comparison function. Data to be grouped by a hash, joined on an id or drawn by a
// seeded key is represented by entries of a few dozen bytes that locate it. Curation and grouping use such an index
// and never hold a map of all records.
//
// Design choices:
//   - Up to the memory budget, the disk is not used. Beyond it, sorted runs go to one temporary file, which is
//     unlinked as soon as it is open: nothing is left behind even if the process is killed.
//   - Rows are sorted by their leading bytes first (most significant digit radix sort). Keys are mostly hashes, so two
//     passes leave a handful of rows per bucket; common prefixes are skipped, and rows that are already sorted are left
//     alone.
//   - The result can be read more than once, one reader at a time.
package extsort
