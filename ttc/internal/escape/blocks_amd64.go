package escape

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// shuffles says, for each set of bytes out of eight, where the bytes go when a backslash is put before those of the
// set: the source of each byte of the result, the backslashes being bytes 8 to 15.
var shuffles = makeShuffles()

func makeShuffles() (to [256][16]byte) {
	for set := range to {
		n := 0
		for i := range byte(8) {
			if set>>i&1 != 0 {
				to[set][n] = 8
				n++
			}
			to[set][n] = i
			n++
		}
	}
	return to
}

var able = cpu.X86.HasSSSE3 && cpu.X86.HasPOPCNT

const (
	block = 16
	chunk = 4 << 10 // bytes that are escaped in one call, which can't be interrupted
)

// Blocks appends the escapes of the blocks of sixteen bytes that s begins with and returns the length of those blocks.
// It stops before a block with a control character that JSON has no letter for. Characters that are not ASCII stay as
// they are.
func Blocks(dst []byte, s string) ([]byte, int) {
	done := 0
	for able && len(s)-done >= block {
		n := min(len(s)-done, chunk) / block
		dst = slices.Grow(dst, 2*n*block+block) // a store may write beyond what it adds
		room := dst[len(dst):cap(dst)]
		blocks, wrote := escapeBlocks(unsafe.SliceData(room), unsafe.StringData(s[done:]), n, &shuffles)
		dst = dst[:len(dst)+wrote]
		if done += blocks * block; blocks < n {
			break
		}
	}
	return dst, done
}

// escapeBlocks escapes up to n blocks of sixteen bytes and returns how many it did and how many bytes it wrote.
//
//go:noescape
func escapeBlocks(dst, src *byte, n int, to *[256][16]byte) (blocks, wrote int)
