package kernels

import (
	"os"
	"sync"
)

type tileFunc func(*tileArgs)

// tileSet holds the tile functions of one path, by element type.
type tileSet struct {
	name     string
	float64s bool // the tiles read the float64 constants and the packed table

	max  [3]tileFunc // max = largest entry of s
	sum  [3]tileFunc // sum = sum 2^(k s - ref)
	jsd  [3]tileFunc // sum = loss in log2 units, max = largest |D|
	even [3]tileFunc // like jsd, but for beta 1/2; may be nil

	// like sum, but stores the exponentials in kept for the later passes of a gradient. The sums of these passes are
	// relative to the teacher's normaliser.
	keep     [3]tileFunc
	keepsMax bool        // keep, klForward and klReverse set max to the largest value in kept
	grad     [3]tileFunc // like jsd; also g = raw gradient, sumG = its sum, clipped = number of clipped entries
	evenGrad [3]tileFunc // like grad, but without clipping and for beta 1/2; may be nil
	// for the gradient with a beta inside (0,1), without clipping of entries; may be nil. g = raw gradient, sumG = its
	// sum, sum = the teacher's side of the loss, each relative to its side's own normaliser
	rate   [3]tileFunc
	rates  *rateTable
	finish tileFunc // out = (g + q*qk) * gk, with q from kept
	stream tileFunc // like finish, but bypasses the caches, for an out on a 64-byte boundary; may be nil
	totals tileFunc // sum = sum of the float32 values in s, sumG = sum of those in t

	// keepAny is like keep, but for forward passes: it may store the even and odd bfloat16 entries separately. The
	// other two are second passes that use the stored values. All may be nil.
	keepAny           [3]tileFunc
	keptJSD, keptEven [3]tileFunc

	// the float64 tiles: for normalisers, for beta 0 and 1, and for other beta; nil means the portable ones
	wideSum, wideEnd, wideMix tileFunc

	// like keep, but accurate to within float64 rounding; may be nil
	exact [3]tileFunc

	// a pass over both sides, with references -nls and -nlt; may be nil. sum = lift sum 2^yt, sumG = sum 2^ys; it also
	// sets kl and klAbs
	kl [3]tileFunc
	// like kl, but for a gradient: kept gets the student's exponentials; keptT gets t's exponentials if the student is
	// s (klForward), and 2^yt (yt-ys) if the student is t (klReverse); all values of t are lifted
	klForward, klReverse [3]tileFunc

	tab     func(*table) [][]float32 // nil if the tiles read the table itself
	tabH    float64                  // unit of D in tab's table, in log2 units of odds; 0 means table.h
	evenTab func(*table) [][]float32 // the table that even, evenGrad or keptEven reads
	evenH   float64                  // unit of |D| in evenTab's table, in log2 units of odds

	gradTab func(*table) [][]float32
	gradH   float64 // like tabH, for gradTab
}

// call is the point at which a goroutine inside the kernels can be preempted: its prologue checks the stack bound,
// which a loop over assembly calls never does. If it were inlined, a garbage collection would have to wait for a whole
// batch.
//
//go:noinline
func call(f tileFunc, a *tileArgs) { f(a) }

// paths lists the paths this processor can run, best first; purego is always last.
var paths = sync.OnceValue(func() []*tileSet { return append(assemblyPaths(), pureTiles()) })

// Paths names the paths this machine can run, best first.
func Paths() []string {
	var out []string
	for _, p := range paths() {
		out = append(out, p.name)
	}
	return out
}

var chosen = sync.OnceValues(func() (*tileSet, error) { return findPath(os.Getenv("NATGO_KERNELS")) })

func findPath(name string) (*tileSet, error) {
	if name == "" {
		return paths()[0], nil
	}
	for _, p := range paths() {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fail(CodePath, "kernel path %q is not available on this machine: expected one of %v", name, Paths())
}

// choose returns the named path or, if name is empty, the one that NATGO_KERNELS names or else the best.
func choose(name string) (*tileSet, error) {
	if name != "" {
		return findPath(name)
	}
	return chosen()
}
