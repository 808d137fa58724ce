package kernelbench

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/kernels"
)

// Options holds the options for Run.
type Options struct {
	Vocab   []int         // vocabulary sizes
	MiB     int           // size in MiB of each side's logits, for measurements with rows in memory
	Threads []int         // thread counts to measure with
	Rounds  int           // interleaved rounds; the median is reported
	Budget  time.Duration // limit on measuring time, excluding compilation; the rounds end once the limit is reached
	JSON    bool          // print one JSON object instead of a table
	Torch   string        // a Python interpreter with torch.compile to compare with; empty means none
}

// Report holds the measurements of Run.
type Report struct {
	Machine string   `json:"machine"`
	Paths   []string `json:"paths"`
	Floors  []floor  `json:"floors"`
	Results []result `json:"results"`
	Grid    []Point  `json:"grid"`
	Torch   string   `json:"torch,omitempty"` // version of torch
	// NotCompiled is the reason why torch.compile failed; empty if it didn't.
	NotCompiled string `json:"torch_not_compiled,omitempty"`

	left time.Duration // remaining part of Options.Budget, which excludes compilation
}

// floor is the machine's own throughput with a given number of threads.
type floor struct {
	Threads    int     `json:"threads"`
	ReadGBps   float64 `json:"read_gb_per_s"` // rate of reading two streams larger than the caches
	FMAPerNs   float64 `json:"vector_fma_per_ns"`
	Path       string  `json:"path"`
	SecondCore bool    `json:"second_core"` // whether two threads do FMAs more than 1.8 times as fast as one
}

// result is the measurement of one kernel on one path.
type result struct {
	Kernel       string  `json:"kernel"`
	Path         string  `json:"path"`
	Vocab        int     `json:"vocab"`
	Threads      int     `json:"threads"`
	CachedNs     float64 `json:"cached_ns_per_entry,omitempty"`
	MemoryNs     float64 `json:"memory_ns_per_entry"`
	MicrosPerRow float64 `json:"us_per_row"`
	// OfFMA is the time that the instructions would take at the FMA rate, divided by the cached time. It is above 1 if
	// additions and permutes have separate execution units. OfDRAM is the memory floor divided by the time from memory.
	// OfMemory is the larger of the memory floor and the cached time, divided by the time from memory; 1 is perfect.
	// Speedup is the time from memory with one thread, divided by the time from memory with Threads threads.
	Instructions float64 `json:"instructions_per_16,omitempty"`
	OfFMA        float64 `json:"of_fma_floor,omitempty"`
	OfDRAM       float64 `json:"of_dram_floor,omitempty"`
	OfMemory     float64 `json:"of_memory_floor"`
	Speedup      float64 `json:"speedup,omitempty"`
}

// kernel describes a kernel to measure.
type kernel struct {
	name  string
	beta  float64
	grad  bool
	bf16  bool
	bytes float64 // bytes moved per entry
}

var list = []kernel{
	{name: "forward", beta: 0.5, bytes: 8},
	{name: "forward, bfloat16", beta: 0.5, bf16: true, bytes: 4},
	{name: "forward, beta 0.3", beta: 0.3, bytes: 8},
	{name: "forward, KL", beta: 0, bytes: 8},
	{name: "gradient", beta: 0.5, grad: true, bytes: 12},
	{name: "gradient, beta 0.3", beta: 0.3, grad: true, bytes: 12},
}

// Run takes the measurements and prints them. If ctx is done first, it prints nothing and returns ctx's error.
func Run(ctx context.Context, w io.Writer, o Options) error {
	rep, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return bench.Print(w, o.JSON, rep, rep.print)
}

func (rep *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s\npaths: %v\n\n", rep.Machine, rep.Paths)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "floors\tthreads\tread GB/s\tvector FMA/ns\t")
	for _, f := range rep.Floors {
		fmt.Fprintf(t, "%s\t%d\t%.1f\t%.2f\t\n", f.Path, f.Threads, f.ReadGBps, f.FMAPerNs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "kernel\tpath\tV\tthreads\tus/row\tns/entry cached\tfrom memory\t"+
		"instr/16\tof FMA\tof DRAM\tof both\tspeedup\t")
	for _, x := range rep.Results {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%.1f\t%s\t%.3f\t%s\t%s\t%s\t%.0f %%\t%s\t\n", x.Kernel, x.Path,
			x.Vocab, x.Threads, x.MicrosPerRow, bench.Optional("%.3f", x.CachedNs), x.MemoryNs,
			bench.Optional("%.1f", x.Instructions), bench.Optional("%.0f %%", 100*x.OfFMA),
			bench.Optional("%.0f %%", 100*x.OfDRAM), 100*x.OfMemory, bench.Optional("%.2f", x.Speedup))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := rep.printGrid(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nof FMA: time of the instructions at the FMA rate, divided by the cached time; above 100 % if additions and permutes have separate units.\nof DRAM: time to read (and, for gradients, write) the bytes at the rate measured for reading two streams, divided by the time from memory.\nof both: the larger of that DRAM time and the cached time, divided by the time from memory.\nTimes are medians of interleaved rounds, with large pages if the system has them.")
	return err
}

// measure fills a Report.
func measure(ctx context.Context, o Options) (*Report, error) {
	rep := &Report{Machine: bench.Machine(), left: o.Budget}
	for _, p := range kernels.Paths() {
		if p != "purego" || len(kernels.Paths()) == 1 {
			rep.Paths = append(rep.Paths, p)
		}
	}
	if err := lists.Each(o.Vocab, func(v int) error { return rep.vocabulary(ctx, o, v) }); err != nil {
		return nil, err
	}
	return rep, lists.Each(o.Vocab, func(v int) error { return rep.measureGrid(ctx, &o, v) })
}

// data holds both sides' logits, as float32 and as bfloat16, and a gradient. The logits are larger than the caches.
type data struct {
	rows, v int
	s, t    []float32
	bs, bt  []uint16
	grad    []float32
}

func newData(v, mib int) *data {
	d := &data{rows: max(2, mib<<20/4/v), v: v}
	n := d.rows * v
	d.s, d.t, d.grad = large[float32](n), large[float32](n), large[float32](n)
	d.bs, d.bt = large[uint16](n), large[uint16](n)
	for i := range d.grad { // touch each page, because the first access to a page takes system time
		d.grad[i] = 1
	}
	r := rand.New(rand.NewPCG(1, 2))
	pattern := make([]float32, 1<<16)
	for i := range pattern {
		pattern[i] = float32(r.NormFloat64())
	}
	for i := range n {
		d.s[i] = 3 * pattern[i*7&(1<<16-1)]
		d.t[i] = d.s[i] + pattern[(i*13+i>>16)&(1<<16-1)]
		d.bs[i], d.bt[i] = uint16(math.Float32bits(d.s[i])>>16), uint16(math.Float32bits(d.t[i])>>16)
	}
	return d
}

// task is a timed operation. do processes the given number of entries.
type task struct {
	entries int
	do      func() error
	ns      []float64 // nanoseconds per entry
}

func (t *task) median() float64 {
	if len(t.ns) == 0 {
		return math.NaN()
	}
	return middle(t.ns)
}

func (rep *Report) vocabulary(ctx context.Context, o Options, v int) error {
	m := &measurement{rep: rep, o: o, v: v, data: newData(v, o.MiB), read: map[place]*task{}, fma: map[place]*task{}}
	for _, path := range rep.Paths {
		for _, th := range o.Threads {
			if err := m.plan(place{path, th}); err != nil {
				return err
			}
		}
	}
	if err := m.time(ctx); err != nil {
		return err
	}
	if v == o.Vocab[0] {
		m.floors()
	}
	for _, l := range m.lines {
		m.addLine(l)
	}
	return nil
}

// measurement measures the kernels with one vocabulary size.
type measurement struct {
	rep  *Report
	o    Options
	v    int
	data *data

	tasks     []*task
	lines     []line
	read, fma map[place]*task // tasks that measure the machine itself, for the paths that have a probe
}

// place is the combination of a path and a number of threads to measure.
type place struct {
	path    string
	threads int
}

// line is a kernel on one path with one number of threads, timed for rows in the cache and in memory.
type line struct {
	k kernel
	place
	cached, memory *task
}

func (m *measurement) add(entries int, do func() error) *task {
	t := &task{entries: entries, do: do}
	m.tasks = append(m.tasks, t)
	return t
}

// plan adds tasks that measure the machine's own speed and every kernel, with a given path and number of threads.
func (m *measurement) plan(at place) error {
	d, o, v, th := m.data, &m.o, m.v, at.threads
	if p := findProbe(at.path); p.read != nil {
		m.read[at] = m.add(d.rows*v, spread(th, d.rows, func(r int) { p.read(d.s[r*v:(r+1)*v], d.t[r*v:(r+1)*v]) }))
		m.fma[at] = m.add(th*o.MiB<<15, spread(th, th, func(int) { p.fma(o.MiB << 15) }))
	}
	for _, k := range list {
		j, err := kernels.NewJSD(kernels.Options{Beta: k.beta, Temperature: 1, Workers: th, Path: at.path})
		if err != nil {
			return err
		}
		l := line{k: k, place: at}
		b, out := d.batch(k)
		l.memory = m.add(d.rows*v, func() error { _, err := j.Run(b, out); return err })
		one, err := kernels.NewJSD(kernels.Options{Beta: k.beta, Temperature: 1, Path: at.path})
		if err != nil {
			return err
		}
		times := max(16, o.MiB<<14/v) // about 2 ms, so that a cold first call is negligible
		l.cached = m.add(times*v*th, spread(th, th, d.repeat(one, k, times)))
		m.lines = append(m.lines, l)
	}
	return nil
}

// time runs all tasks one after another in each round, until the budget is exhausted.
func (m *measurement) time(ctx context.Context) error {
	for round := range m.o.Rounds {
		for _, t := range m.tasks {
			if ctx.Err() != nil || (round > 0 && m.rep.left <= 0) {
				break
			}
			start := time.Now()
			if err := t.do(); err != nil {
				return err
			}
			took := time.Since(start)
			m.rep.left -= took
			if ns := float64(took.Nanoseconds()); round > 0 || m.o.Rounds == 1 { // the first round is a warm-up
				t.ns = append(t.ns, ns/float64(t.entries))
			}
		}
	}
	return ctx.Err()
}

// floors reports the machine's own throughput.
func (m *measurement) floors() {
	for _, path := range m.rep.Paths {
		for _, th := range m.o.Threads {
			at := place{path, th}
			if t := m.read[at]; t != nil {
				one, two := m.fma[place{path, 1}], m.fma[place{path, 2}]
				m.rep.Floors = append(m.rep.Floors, floor{
					Threads: th, Path: path, ReadGBps: 8 / t.median(), FMAPerNs: 1 / m.fma[at].median(),
					SecondCore: th == 2 && one.median() > 1.8*two.median(),
				})
			}
		}
	}
}

// addLine adds the result for a line to the report, and compares the times with the machine's floors.
func (m *measurement) addLine(l line) {
	x := result{
		Kernel: l.k.name, Path: l.path, Vocab: m.v, Threads: l.threads, MemoryNs: l.memory.median(),
		Instructions: instructions[l.path][l.k.name],
	}
	x.MicrosPerRow = x.MemoryNs * float64(m.v) / 1000
	floor := 0.0
	if t := m.read[l.place]; t != nil {
		floor = t.median() * l.k.bytes / 8
	}
	x.CachedNs, x.OfDRAM = l.cached.median(), floor/x.MemoryNs
	if t := m.fma[l.place]; t != nil && x.Instructions > 0 {
		x.OfFMA = x.Instructions / 16 * t.median() / x.CachedNs
	}
	x.OfMemory = max(floor, x.CachedNs) / x.MemoryNs
	for _, y := range m.rep.Results {
		if y.Threads == 1 && l.threads > 1 && y.Kernel == x.Kernel && y.Path == x.Path && y.Vocab == m.v {
			x.Speedup = y.MemoryNs / x.MemoryNs
		}
	}
	m.rep.Results = append(m.rep.Results, x)
}

func (d *data) batch(k kernel) (*kernels.Batch, *kernels.Output) {
	rows, n := d.rows, d.rows*d.v
	b := &kernels.Batch{Student: kernels.F32Matrix(d.s[:n], rows, d.v), Teacher: kernels.F32Matrix(d.t[:n], rows, d.v)}
	if k.bf16 {
		b.Student, b.Teacher = kernels.BF16Matrix(d.bs[:n], rows, d.v), kernels.BF16Matrix(d.bt[:n], rows, d.v)
	}
	out := &kernels.Output{}
	if k.grad {
		out.Grad = d.grad[:n]
	}
	return b, out
}

// repeat returns a function that runs kernel k on row r n times, so that the row stays in the caches.
func (d *data) repeat(j *kernels.JSD, k kernel, n int) func(r int) {
	return func(r int) {
		at := r * d.v
		one := &data{1, d.v, d.s[at:], d.t[at:], d.bs[at:], d.bt[at:], d.grad[at:]}
		b, out := one.batch(k)
		for range n {
			if _, err := j.Run(b, out); err != nil {
				panic(err) // cannot fail, because the arrays' shapes are valid
			}
		}
	}
}

// spread returns a function that calls f for every i below n, dividing the calls among threads.
func spread(threads, n int, f func(i int)) func() error {
	return func() error {
		var all sync.WaitGroup
		for w := range threads {
			all.Go(func() {
				for i := w; i < n; i += threads {
					f(i)
				}
			})
		}
		all.Wait() // wait: f only does arithmetic
		return nil
	}
}

// probe holds the functions that measure a path's floors. The functions are nil if the floors can't be measured.
type probe struct {
	read func(s, t []float32)
	fma  func(n int) // executes n vector instructions
}
