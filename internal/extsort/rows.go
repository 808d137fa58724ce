package extsort

import (
	"bytes"
	"sort"
	"sync"
)

// maxInsertionRows is the maximum number of rows for which insertion sort is faster than counting.
const maxInsertionRows = 20

// sortRows sorts rows, each of them width bytes long, in byte order. The first depth bytes of all rows must be equal,
// and scratch must be at least as long as rows.
func sortRows(rows, scratch []byte, width, depth int) {
	depth, sorted := scan(rows, width, depth)
	switch {
	case sorted:
		return
	case len(rows) <= maxInsertionRows*width:
		insertRows(rows, scratch[:width], width, depth)
		return
	}
	var ends [256]int
	for i := depth; i < len(rows); i += width {
		ends[rows[i]] += width
	}
	sum := 0
	for i, n := range ends {
		ends[i] = sum
		sum += n
	}
	for i := 0; i < len(rows); i += width {
		b := rows[i+depth]
		copy(scratch[ends[b]:ends[b]+width], rows[i:i+width])
		ends[b] += width
	}
	copy(rows, scratch[:len(rows)])
	bounds := append(make([]int, 1, 257), ends[:]...)
	if len(rows) < minParallelBytes {
		sortParts(rows, scratch, bounds, width, depth+1)
		return
	}
	var other sync.WaitGroup
	middle := sort.SearchInts(bounds[:256], len(rows)/2)
	other.Go(func() { sortParts(rows, scratch, bounds[:middle+1], width, depth+1) })
	sortParts(rows, scratch, bounds[middle:], width, depth+1)
	other.Wait()
}

// minParallelBytes is the minimum size of rows sorted by two goroutines.
const minParallelBytes = 1 << 20

// sortParts sorts the rows between each pair of bounds.
func sortParts(rows, scratch []byte, bounds []int, width, depth int) {
	for i, end := range bounds[1:] {
		if start := bounds[i]; end-start > width {
			sortRows(rows[start:end], scratch[start:end], width, depth)
		}
	}
}

// scan returns the number of leading bytes that all rows share, which is at least depth, and whether the rows are
// already in order.
func scan(rows []byte, width, depth int) (common int, sorted bool) {
	if len(rows) <= width {
		return width, true
	}
	common, sorted = width, true
	for i := width; i < len(rows); i += width {
		if sorted && bytes.Compare(rows[i-width+depth:i], rows[i+depth:i+width]) > 0 {
			sorted = false
		}
		k := depth
		for k < common && rows[k] == rows[i+k] {
			k++
		}
		common = k
		if common == depth && !sorted {
			break
		}
	}
	return common, sorted
}

// insertRows sorts a few rows by comparing their bytes starting at depth.
func insertRows(rows, hold []byte, width, depth int) {
	for i := width; i < len(rows); i += width {
		j := i
		for j > 0 && bytes.Compare(rows[j-width+depth:j], rows[i+depth:i+width]) > 0 {
			j -= width
		}
		if j == i {
			continue
		}
		copy(hold, rows[i:i+width])
		copy(rows[j+width:i+width], rows[j:i])
		copy(rows[j:j+width], hold)
	}
}
