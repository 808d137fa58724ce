package kernels

import (
	"slices"
	"unsafe"
)

const (
	block = 128  // the number of entries passed to a tile function is a multiple of this
	tile  = 4096 // maximum number of entries per call, which takes about 2 us
)

// tileArgs is the single argument of every tile function. kernels/_generate reads the offsets of its fields from this
// declaration. Addresses are pointers, not numbers, so that the garbage collector sees them.
type tileArgs struct {
	s, t  unsafe.Pointer // student and teacher entries
	g     unsafe.Pointer // raw gradient in log2 units, float32
	out   unsafe.Pointer // gradient, float32
	kept  unsafe.Pointer // 2^(kx - ref) of the student, or of the side that the first pass reads; float32
	keptT unsafe.Pointer // like kept, for the teacher
	odds  unsafe.Pointer // scratch space for 128 float32 values
	n     int
	tab   unsafe.Pointer
	pfs   unsafe.Pointer // first address to prefetch during the pass, in the next row of s
	pft   unsafe.Pointer // first address to prefetch during the pass, in the next row of t
	step  int            // bytes between prefetches; 0 prefetches the same line again

	k        float32 // log2(e)/T
	ref      float32 // the first pass computes 2^(kx - ref)
	rs, rt   float32 // subtracted from the logits before scaling
	nls, nlt float32 // -log2 sum 2^(k(x-r))
	hk, hd   float32 // D = (t'-s')*hk + hd
	clip     float32 // upper limit of an entry, in log2 units
	limit    float32 // upper limit of |x| in a rate pass
	qk, gk   float32 // out = (g + q*qk) * gk

	sum     float64 // results
	sumG    float64
	clipped int
	max     float32 // the largest entry, |D| or |out|, depending on the tile
	teacher uint32  // all bits set if rate is relative to the larger probability, as for beta 0; otherwise 0
	ratio   float32 // factor that makes the student's kept entries relative to the teacher's normaliser
	lift    float32 // factor of the weights 2^yt in kl: klLift times drop
	drop    float32
	kl      float64 // lift times sum 2^yt (yt-ys)
	klAbs   float64 // lift times sum 2^yt |yt-ys|

	// The constants above in float64, for the portable tiles.
	dk, dref, dnls, dnlt, dhk, dhd, dclip, dqk, dgk float64
	table                                           *table
	wide                                            *[2][tile]float32 // decoded entries
	rows                                            unsafe.Pointer    // a *wideRows, for the float64 tiles
}

// aligned allocates n values on a 64-byte boundary.
func aligned(n int) []float32 {
	b := make([]float32, n+15)
	return b[-(uintptr(unsafe.Pointer(&b[0]))/4)&15:][:n]
}

// alignedRows allocates the rows of a table one after another, the first on a 64-byte boundary.
func alignedRows(rows, width int) [][]float32 {
	return slices.Collect(slices.Chunk(aligned(rows*width), width))
}
