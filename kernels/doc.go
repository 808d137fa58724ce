// Package kernels computes distillation and preference losses over rows of logits, with their gradients.
//
// # What it computes
//
// The generalised Jensen-Shannon divergence of a student and a teacher row, with q = softmax(student/T),
// p = softmax(teacher/T), M = (1-b)q + bp:
//
//	L = b KL(p||M) + (1-b) KL(q||M),  b = 0: KL(p||q),  b = 1: KL(q||p)
//
// dense ([JSD]), against the top-k log-probabilities of a teacher ([SparseJSD]) or on the student's own top-k
// ([TopKJSD]); sequence log-probabilities ([LogProb]), entropy ([Entropy]), the DPO family ([DPO]) and the clipped
// policy-gradient token loss ([PolicyLoss]). Gradients go to the student only. Logits are float32, bfloat16 or
// float16; losses are float64, gradients float32.
//
// # How the dense kernel works
//
// A row takes two passes. The first sums 2^(kx-r) for both sides in tiles, with a reference r taken from the first
// entries and corrected when a tile shows that it was too small. Few terms are added in float32 before they join a float64
// sum: thousands of equal entries would round the same way.
// The second writes each entry of the loss as 2^max(log2 p, log2 q) * psi_b(D), where D is the log-odds difference
// log2 p - log2 q. psi_b is a piecewise polynomial, whose slope is fitted in float64 when a JSD is made. Around D = 0 it starts
// with D squared, so equal rows give exactly 0, nearly equal rows keep their relative accuracy, nothing cancels and
// no row is negative. The gradient needs psi_b and its derivative only:
//
//	dl/da = 2^hi * (psi - psi')  where the student's side is the larger,  2^hi * -psi'  elsewhere
//
// which is then folded through the softmax in a third pass. With b = 0 or 1 and no gradient one reading is enough
// where the sides differ clearly. The next row is prefetched meanwhile; large gradients are written past the caches.
//
// Rows that float32 cannot hold go through the float64 reference in this package, about a hundred times slower and
// counted in [Stats]: a log-normaliser beyond +-4096, a NaN or an infinity where none may be, b within 1e-4 of an end
// but not at it, and gradients whose terms cancel almost entirely.
//
// # Paths
//
// avx512, avx2, neon and purego compute the same thing from the same driver; a path is a table of tile functions,
// chosen once from the processor's features. NATGO_KERNELS=purego|avx2|avx512|neon forces one. Build with
// -tags purego to leave the assembly out. Assembly tiles hold no bounds checks: the driver hands them whole blocks
// of 128 entries and copies a row's tail into a padded block, so nothing outside a row is read. A tile is 4096
// entries and is called through a Go function with a stack check, so the collector never waits for one.
//
// # Policy for bad input
//
// A wrong shape, option or index is an *Error and nothing is written. A row that holds a NaN or +Inf, or is -Inf
// throughout, has no softmax: its loss is NaN, its gradient row NaN, [Stats] counts it, and other rows are
// unaffected; Options.Strict turns it into an error that names the first such row. b = 0 and b = 1 with a support
// mismatch are +Inf, as mathematics says, with an undefined (NaN) gradient. Ignored rows are never read.
package kernels
