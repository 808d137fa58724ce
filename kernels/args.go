package kernels

import "unsafe"

const (
	block = 128  // entries: what a tile function's count is a multiple of
	tile  = 4096 // entries of one call, about 2 us
)

// tileArgs is the one argument of every tile function. The assembly reads it by offset: keep kernels/_generate in
// step. Pointers are typed so that the collector sees them.
type tileArgs struct {
	s, t unsafe.Pointer // 0, 8: student and teacher entries
	g    unsafe.Pointer // 16: raw gradient, float32
	out  unsafe.Pointer // 24: gradient, float32
	n    int            // 32
	tab  unsafe.Pointer // 40
	pfs  unsafe.Pointer // 48: what to prefetch meanwhile
	pft  unsafe.Pointer // 56
	step int            // 64: bytes between prefetches; 0 keeps them in place

	k        float32 // 72: log2(e)/T
	ref      float32 // 76: first pass: 2^(kx - ref)
	rs, rt   float32 // 80, 84: subtracted from the logits before scaling
	nls, nlt float32 // 88, 92: -log2 sum 2^(k(x-r))
	hk, hd   float32 // 96, 100: D = (t'-s')*hk + hd
	clip     float32 // 104: largest entry, log2 units
	slope    float32 // 108: the raw gradient is slope*l - 2^hi dpsi/dD, times 1/slope that of a in log2 units
	qk, gk   float32 // 112, 116: out = q*qk + g*gk

	sum     float64 // 120: results
	sumG    float64 // 128
	clipped int     // 136
	max     float32 // 144: the largest entry, |D| or |out|
	qmax    float32 // 148: the largest q of a finish
	lift    float32 // 152: entries of the student's side are larger by this, for the rounding of nls and nlt
	_       float32
	kl      float64 // 160: sum 2^yt (yt-ys)
	klAbs   float64 // 168: sum 2^yt |yt-ys|

	// The same constants for the float64 twin.
	dk, dref, dnls, dnlt, dhk, dhd, dclip, dslope, dqk, dgk float64
	table                                                   *table
	wide                                                    *[2][tile]float32 // decoded entries
}

// alignedRows allocates a T on a 64-byte boundary.
func alignedRows[T any]() *T {
	var z T
	b := make([]byte, unsafe.Sizeof(z)+63)
	off := -uintptr(unsafe.Pointer(&b[0])) & 63
	return (*T)(unsafe.Pointer(&b[off]))
}
