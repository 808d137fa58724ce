package kernels

import "math"

// IgnoreIndex marks a row or token that is excluded from a loss.
const IgnoreIndex = -100

// Clip names the quantity limited to Options.ClipValue, in units of the un-normalised loss.
type Clip uint8

// The clip modes.
const (
	ClipNone Clip = iota // nothing is limited
	// ClipToken limits a row's loss; a limited row gets no gradient.
	ClipToken
	// ClipElement limits each vocabulary entry's summand. At beta 0 and 1 the plain summand may be negative. The
	// limited loss may then be negative too, and its gradient may point the wrong way; ClipBregman avoids both.
	ClipElement
	// ClipBregman is like ClipElement, but with the summands p d - p + q (beta 0) and -q d - q + p (beta 1).
	ClipBregman
)

// ParseClip parses none, token, element or element_bregman.
func ParseClip(s string) (Clip, error) {
	return parse[Clip](CodeClip, "clip mode", s, "none", "token", "element", "element_bregman")
}

// Reduction turns the weighted sum S of row losses into one number.
type Reduction uint8

// The reductions.
const (
	ReduceSum       Reduction = iota // S
	ReduceBatchMean                  // S / max(active rows, 1)
	ReduceMean                       // S / (max(active rows, 1) * V)
	ReduceDenom                      // S / Options.Denominator
)

// Rest selects how the vocabulary outside a support is treated.
type Rest uint8

// Treatments of the rest.
const (
	// RestBucket treats the rest as one more entry on both sides. The loss is a lower bound of the full divergence.
	RestBucket Rest = iota
	// RestRenormalise ignores the rest and scales each side's probabilities on the support to sum to 1. The loss isn't
	// a bound, and is 0 for a support of a single entry.
	RestRenormalise
)

// ParseRest parses bucket or renormalise.
func ParseRest(s string) (Rest, error) {
	return parse[Rest](CodeKind, "rest", s, "bucket", "renormalise")
}

// Options configures a divergence.
type Options struct {
	Beta        float64 // in [0,1]; 0 is KL(teacher||student), 1 is KL(student||teacher)
	Temperature float64 // divides both sides' logits; the loss isn't multiplied by T^2
	Clip        Clip
	ClipValue   float64 // > 0 with a clip mode, 0 without
	Normalize   bool    // divide loss and gradient by beta(1-beta), which makes the ends continuous
	Reduction   Reduction
	Denominator float64 // > 0 with ReduceDenom, 0 otherwise
	// Workers is the number of goroutines that share the rows, which doesn't affect results; 0 or 1 means the caller's.
	Workers int
	Strict  bool   // a row without a finite softmax is an error
	Path    string // one of Paths(); "" means the path that NATGO_KERNELS names or, if it is unset, the best one
}

// choosePath checks the options and returns the path they choose.
func (o *Options) choosePath() (*tileSet, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return choose(o.Path)
}

func (o *Options) check() error {
	inverse := float32(1 / o.Temperature)
	switch {
	case !(o.Beta >= 0 && o.Beta <= 1):
		return fail(CodeBeta, "invalid beta %v: expected a number in [0,1]", o.Beta)
	case !(o.Temperature > 0) || math.IsInf(o.Temperature, 0) || !(inverse > 0) || math.IsInf(float64(inverse), 0):
		return fail(CodeTemperature, "invalid temperature (tau) %v: expected a finite number above 0", o.Temperature)
	case o.Clip > ClipBregman:
		return fail(CodeClip, "unknown clip mode %d", o.Clip)
	case o.Clip == ClipNone && o.ClipValue != 0:
		return fail(CodeClip, "clip value %v without a clip mode (clip is none)", o.ClipValue)
	case o.Clip != ClipNone && !(o.ClipValue > 0):
		return fail(CodeClip, "invalid clip value %v: expected a number above 0", o.ClipValue)
	case o.Reduction > ReduceDenom:
		return fail(CodeDenominator, "unknown reduction %d", o.Reduction)
	case o.Reduction == ReduceDenom && (!(o.Denominator > 0) || math.IsInf(o.Denominator, 1)):
		return fail(CodeDenominator, "invalid denom %v: expected a finite number above 0", o.Denominator)
	case o.Reduction != ReduceDenom && o.Denominator != 0:
		return fail(CodeDenominator, "denom %v is set but the reduction does not use one", o.Denominator)
	}
	return nil
}

func (o *Options) clipsElements() bool { return o.Clip == ClipElement || o.Clip == ClipBregman }

func (o *Options) normFactor() float64 {
	if o.Normalize && o.Beta > 0 && o.Beta < 1 {
		return 1 / (o.Beta * (1 - o.Beta))
	}
	return 1
}

// clipToken limits a row's loss to the range from 0 to ClipValue, and reports whether that makes its gradient 0. NaN is
// left unchanged.
func (o *Options) clipToken(r *rowResult) (flat bool) {
	if o.Clip != ClipToken {
		return false
	}
	switch {
	case r.loss > o.ClipValue:
		r.loss, r.clipped = o.ClipValue, 1
		return true
	case r.loss < 0: // a KL may be negative due to rounding
		r.loss = 0
		return true
	}
	return false
}

// denominator returns the denominator of a reduction over n active rows of v entries.
func (o *Options) denominator(n, v int) float64 {
	switch o.Reduction {
	case ReduceBatchMean:
		return float64(max(n, 1))
	case ReduceMean:
		return float64(max(n, 1)) * float64(max(v, 1))
	case ReduceDenom:
		return o.Denominator
	}
	return 1
}
