package kernelbench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
	"unsafe"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/kernels"
)

// point is a kind of row that occurs in training, with the options for the kernel.
type point struct {
	name  string
	fill  func(r *rand.Rand, s, t []float32)
	beta  float64
	tau   float64
	clip  kernels.Clip
	dtype kernels.DType
}

// grid returns points that differ in the distance between student and teacher, in the confidence of both, and in the
// options, because a kernel's time may depend on each of these properties.
func grid() []point {
	moved2 := moved(2)
	out := []point{
		{name: "unrelated, sd 1", fill: unrelated(1)},
		{name: "unrelated, sd 3", fill: unrelated(3)},
		{name: "moved by sd 0.5", fill: moved(0.5)},
		{name: "moved by sd 2", fill: moved2},
		{name: "moved by sd 4", fill: moved(4)},
		{name: "peak 18, doubted", fill: peak(18, 12)},
		{name: "peak 25, shared", fill: peak(25, 24)},
		{name: "heavy tails", fill: heavyTails},
		{name: "padded vocabulary", fill: padded},
		{name: "temperature 0.5", fill: moved2, tau: 0.5},
		{name: "temperature 2", fill: moved2, tau: 2},
		{name: "bfloat16", fill: moved2, dtype: kernels.BFloat16},
		{name: "float16", fill: moved2, dtype: kernels.Float16},
		{name: "clip token", fill: moved2, clip: kernels.ClipToken},
		{name: "clip element", fill: moved2, clip: kernels.ClipElement},
	}
	for i := range out {
		out[i].beta, out[i].tau = 0.5, cmp.Or(out[i].tau, 1)
	}
	for _, b := range []float64{0, 0.02, 0.1, 0.9, 1} {
		out = append(out, point{name: fmt.Sprintf("beta %g", b), fill: moved2, beta: b, tau: 1})
	}
	return out
}

func normal(r *rand.Rand, x []float32, sd float64) {
	for i := range x {
		x[i] = float32(r.NormFloat64() * sd)
	}
}

func unrelated(sd float64) func(r *rand.Rand, s, t []float32) {
	return func(r *rand.Rand, s, t []float32) { normal(r, s, sd); normal(r, t, sd) }
}

// moved returns a function that fills in a student, and a teacher whose logits differ from the student's by noise with
// standard deviation sd.
func moved(sd float64) func(r *rand.Rand, s, t []float32) {
	return func(r *rand.Rand, s, t []float32) { near(r, s, t, 3, sd) }
}

// near fills in normally distributed logits for a student, and the same logits with added noise for a teacher.
func near(r *rand.Rand, s, t []float32, sd, noise float64) {
	normal(r, s, sd)
	normal(r, t, noise)
	for i, x := range s {
		t[i] += x
	}
}

// peak returns a function that fills in similar logits for a student and a teacher, except that a random token gets the
// given logits.
func peak(student, teacher float32) func(r *rand.Rand, s, t []float32) {
	return func(r *rand.Rand, s, t []float32) {
		near(r, s, t, 1, 0.5)
		at := r.IntN(len(s))
		s[at], t[at] = student, teacher
	}
}

// heavyTails fills in logits that decrease with the logarithm of a random rank, and then adds a few large ones.
func heavyTails(r *rand.Rand, s, t []float32) {
	normal(r, t, 1)
	for i := range s {
		s[i] = float32(-1.1*math.Log(float64(r.IntN(len(s))+1)) + 0.3*r.NormFloat64())
	}
	for range 8 {
		s[r.IntN(len(s))] += 12 * r.Float32()
	}
	for i, x := range s {
		t[i] += x
	}
}

// padded masks the last 32nd of the vocabulary.
func padded(r *rand.Rand, s, t []float32) {
	moved(2)(r, s, t)
	for i := len(s) * 31 / 32; i < len(s); i++ {
		s[i], t[i] = float32(math.Inf(-1)), float32(math.Inf(-1))
	}
}

// Point contains the times for one point of the grid, on the first path with one thread, in microseconds of processor
// time per row.
type Point struct {
	Name     string  `json:"name"`
	Vocab    int     `json:"vocab"`
	Forward  float64 `json:"forward_us_per_row"`
	Gradient float64 `json:"gradient_us_per_row"`
	Slow     float64 `json:"float64_share"` // share of rows whose gradient is computed on the float64 path
	// OfForward and OfGradient are the time of torch's fastest compiled form on the same arrays, divided by the
	// kernel's time; 0 means that torch wasn't measured.
	OfForward  float64 `json:"forward_times_torch_compiled,omitempty"`
	OfGradient float64 `json:"gradient_times_torch_compiled,omitempty"`
}

// gridPoint is a point that is being measured.
type gridPoint struct {
	Point
	times, torch [2][]float64 // times for forward and gradient, in microseconds per row
}

// measureGrid times the kernels and torch at every point, with the same arrays, in several rounds.
func (rep *Report) measureGrid(ctx context.Context, o *Options, v int) error {
	rows := max(2, 8*32000/v)
	runtime.LockOSThread() // measure reads this thread's CPU time
	defer runtime.UnlockOSThread()
	var peer *torch
	if o.Torch != "" && rep.NotCompiled == "" {
		var err error
		if peer, err = startTorch(ctx, o.Torch, v, rows); err != nil {
			return err
		}
		rep.Torch = peer.version
		defer peer.stop()
	}
	for _, p := range grid() {
		g := gridPoint{Point: Point{Name: p.name, Vocab: v}}
		if err := g.measure(ctx, rep, o, &p, v, rows, peer); err != nil {
			return err
		}
		rep.Grid = append(rep.Grid, g.Point)
	}
	return nil
}

func (g *gridPoint) measure(ctx context.Context, rep *Report, o *Options, p *point, v, rows int, peer *torch) error {
	s, t := make([]float32, rows*v), make([]float32, rows*v)
	r := rand.New(rand.NewPCG(7, 8))
	for i := range rows {
		p.fill(r, s[i*v:(i+1)*v], t[i*v:(i+1)*v])
	}
	options := kernels.Options{Beta: p.beta, Temperature: p.tau, Clip: p.clip}
	if p.clip != kernels.ClipNone {
		options.ClipValue = 0.3
	}
	j, err := kernels.NewJSD(options)
	if err != nil {
		return err
	}
	b := &kernels.Batch{Student: matrix(s, p.dtype, rows, v), Teacher: matrix(t, p.dtype, rows, v)}
	outs := []*kernels.Output{{}, {Grad: make([]float32, rows*v)}}
	if peer != nil && p.clip == kernels.ClipNone {
		if err := peer.load(b, p.tau); err != nil {
			return err
		}
	} else {
		peer = nil
	}
	for round := range max(2, o.Rounds) {
		if ctx.Err() != nil || round > 1 && rep.left <= 0 {
			break
		}
		for i, out := range outs {
			took, slow, err := timeRun(j, b, out)
			if err != nil {
				return err
			}
			g.Slow = slow
			rep.left -= took
			if peer != nil {
				seconds, err := peer.seconds(kernel{beta: p.beta, grad: i == 1})
				if errors.Is(err, errNotCompiled) {
					rep.NotCompiled, peer = err.Error(), nil
				} else if err != nil {
					return err
				}
				rep.left -= time.Duration(seconds * float64(time.Second))
				if round > 0 && peer != nil {
					g.torch[i] = append(g.torch[i], seconds*1e6/float64(rows))
				}
			}
			if round > 0 { // the first round is a warm-up
				g.times[i] = append(g.times[i], float64(took.Nanoseconds())/1000/float64(rows))
			}
		}
	}
	g.Forward, g.Gradient = middle(g.times[0]), middle(g.times[1])
	g.OfForward, g.OfGradient = middle(g.torch[0])/max(g.Forward, 1e-9), middle(g.torch[1])/max(g.Gradient, 1e-9)
	return ctx.Err()
}

// timeRun runs j twice, and times only the second run, for which the arrays are in the caches. Torch is timed in the
// same way. slow is the share of rows on the float64 path.
func timeRun(j *kernels.JSD, b *kernels.Batch, out *kernels.Output) (took time.Duration, slow float64, err error) {
	for range 2 {
		began := processorTime()
		st, err := j.Run(b, out)
		if err != nil {
			return 0, 0, err
		}
		took, slow = processorTime()-began, float64(st.Exact)/float64(st.Active)
	}
	return took, slow, nil
}

// middle returns the median of x, or 0 if x is empty.
func middle(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(x))[len(x)/2]
}

// matrix converts rows to the given type, truncating values if the type has 16 bits.
func matrix(x []float32, d kernels.DType, rows, v int) kernels.Matrix {
	if d == kernels.Float32 {
		return kernels.F32Matrix(x, rows, v)
	}
	h := make([]uint16, len(x))
	for i, f := range x {
		bits := math.Float32bits(f)
		h[i] = uint16(bits >> 16)
		if d == kernels.Float16 { // logits of this magnitude become normal numbers or 0
			h[i] = uint16(bits>>16&0x8000 | max(0, (bits>>13)&0x3ffff-112<<10)&0x7fff)
			if math.Abs(float64(f)) < 6.2e-5 {
				h[i] = 0
			}
		}
	}
	if d == kernels.BFloat16 {
		return kernels.BF16Matrix(h, rows, v)
	}
	return kernels.F16Matrix(h, rows, v)
}

// load sends a batch to torch as float32 logits that have been divided by the temperature.
func (t *torch) load(b *kernels.Batch, tau float64) error {
	dir, err := os.MkdirTemp("", "nat-go-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "rows")
	f, err := os.Create(path) //nolint:gosec // in a temporary folder
	if err != nil {
		return err
	}
	for _, m := range []*kernels.Matrix{&b.Student, &b.Teacher} {
		x := make([]float32, 0, m.Rows*m.Cols)
		for r := range m.Rows {
			for c := range m.Cols {
				x = append(x, float32(m.At(r, c)/tau))
			}
		}
		_, err = f.Write(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
		if err != nil {
			break
		}
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	_, err = t.ask("load %s", path)
	return err
}

// printGrid prints the grid as a table, and its median and worst ratio to torch.
func (rep *Report) printGrid(w io.Writer) error {
	if len(rep.Grid) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "rows\tV\tforward us/row\tgradient\tfloat64 rows\t"+
		"forward, torch compiled\tgradient, torch compiled\t")
	var forward, gradient []float64
	for _, p := range rep.Grid {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t%.0f %%\t%s\t%s\t\n", p.Name, p.Vocab, p.Forward, p.Gradient, 100*p.Slow,
			bench.Optional("%.1fx", p.OfForward), bench.Optional("%.1fx", p.OfGradient))
		if p.OfForward > 0 {
			forward, gradient = append(forward, p.OfForward), append(gradient, p.OfGradient)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(forward) > 0 {
		fmt.Fprintf(w, "compiled torch %s takes %.1f (median) and %.1f (worst) times as long as nat-go forward, "+
			"%.1f and %.1f with gradients.\n", rep.Torch, middle(forward), slices.Min(forward), middle(gradient),
			slices.Min(gradient))
	}
	if rep.NotCompiled != "" {
		fmt.Fprintf(w, "Not compiled: %s.\n", rep.NotCompiled)
	}
	_, err := fmt.Fprintf(w, "processor times of one thread on %s, for rows as in training; "+
		"torch has the same arrays.\n", rep.Paths[0])
	return err
}
