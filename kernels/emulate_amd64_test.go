//go:build !purego

package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// On processors without AVX-512, NATGO_EMULATE=1 makes tests run the AVX-512 tiles by interpreting their assembly, as
// an additional path before purego. This is a hundred times slower than the processor.
func init() {
	native := paths
	paths = sync.OnceValue(func() []*tileSet {
		out := native()
		if out[0].name == "avx512" || os.Getenv("NATGO_EMULATE") == "" {
			return out
		}
		p := avx512()
		p.name += interpreted
		return slices.Insert(slices.Clone(out), len(out)-1, emulated(p))
	})
}

// machine holds the registers that a tile uses.
type machine struct {
	general [16]uint64
	vector  [32][16]uint32
	mask    [8]uint32
	less    bool // result of the last comparison
	arg     *tileArgs
}

// step executes an instruction and returns the index of the next one, or -1 at the end.
type step func(m *machine, at int) int

// emulated is a path whose assembly is interpreted.
func emulated(p *tileSet) *tileSet {
	// The float64 tiles aren't interpreted, because AVX2 tests the same instructions on narrower vectors.
	p.wideSum, p.wideEnd, p.wideMix = nil, nil, nil
	programs := readPrograms()
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		for _, f := range tileFuncs(v.Field(i)) {
			name := runtime.FuncForPC(reflect.ValueOf(*f).Pointer()).Name()
			steps, ok := programs[name[strings.LastIndex(name, ".")+1:]]
			if !ok {
				panic("no assembly of " + name)
			}
			*f = func(a *tileArgs) {
				m := &machine{arg: a}
				for at := 0; at >= 0; {
					at = steps[at](m, at)
				}
				runtime.KeepAlive(a)
			}
		}
	}
	return p
}

// tileFuncs are the tile functions in a field of a tileSet.
func tileFuncs(v reflect.Value) (out []*tileFunc) {
	switch p := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(type) {
	case *tileFunc:
		out = append(out, p)
	case *[3]tileFunc:
		out = append(out, &p[0], &p[1], &p[2])
	}
	return slices.DeleteFunc(out, func(f *tileFunc) bool { return *f == nil })
}

var (
	textLine   = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	dataLine   = regexp.MustCompile(`^DATA (\w+)<>\+(\d+)\(SB\)/4, \$(0x[0-9a-f]+)`)
	memory     = regexp.MustCompile(`^(-?\d+)?\((\w+)\)(?:\((\w+)\*(\d)\))?$`)
	staticName = regexp.MustCompile(`^(\w+)<>(?:\+(\d+))?\(SB\)$`)
)

func readPrograms() map[string][]step {
	text, err := os.ReadFile("tiles_amd64.s")
	if err != nil {
		panic(err)
	}
	static := map[string]*[4096]byte{}
	type function struct {
		lines  []string
		labels map[string]int
	}
	functions, name := map[string]*function{}, ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), "//")
		if d := dataLine.FindStringSubmatch(line); d != nil {
			if static[d[1]] == nil {
				static[d[1]] = (*[4096]byte)(unsafe.Pointer(&aligned(1024)[0]))
			}
			at, _ := strconv.Atoi(d[2])
			bits, _ := strconv.ParseUint(d[3], 0, 32)
			binary.LittleEndian.PutUint32(static[d[1]][at:], uint32(bits))
			continue
		}
		if t := textLine.FindStringSubmatch(line); t != nil {
			name = t[1]
			functions[name] = &function{labels: map[string]int{}}
			continue
		}
		f := functions[name]
		switch line = strings.TrimSpace(line); {
		case f == nil, line == "", strings.HasPrefix(line, "GLOBL"):
		case strings.HasSuffix(line, ":"):
			f.labels[strings.TrimSuffix(line, ":")] = len(f.lines)
		default:
			f.lines = append(f.lines, line)
		}
	}
	out := map[string][]step{}
	for name, f := range functions {
		if !strings.HasSuffix(name, "AVX512") || strings.HasPrefix(name, "wide") {
			continue
		}
		for _, line := range f.lines {
			out[name] = append(out[name], decodeLine(line, f.labels, static))
		}
	}
	return out
}

// operand is a register, an immediate or a place in memory.
type operand struct {
	kind        byte // 'v' vector, 'r' general, 'k' mask, 'i' immediate, 'm' memory, 's' static memory, 'a' the argument
	n, lanes    int
	base, index int // general registers; index is -1 for none
	scale       uint64
	disp        int64
	static      unsafe.Pointer
}

var generalNames = strings.Fields("AX BX CX DX SI DI BP SP R8 R9 R10 R11 R12 R13 R14 R15")

func parseOperand(s string, static map[string]*[4096]byte) operand {
	number := func(s string) int {
		n, _ := strconv.ParseInt(s, 0, 64) // 0 if s is empty
		return int(n)
	}
	if d := staticName.FindStringSubmatch(s); d != nil {
		return operand{kind: 's', static: unsafe.Pointer(&static[d[1]][number(d[2])])}
	}
	if d := memory.FindStringSubmatch(s); d != nil {
		o := operand{kind: 'm', base: slices.Index(generalNames, d[2]), index: -1, disp: int64(number(d[1]))}
		if d[3] != "" {
			o.index, o.scale = slices.Index(generalNames, d[3]), uint64(number(d[4]))
		}
		return o
	}
	if s == "a+0(FP)" {
		return operand{kind: 'a'}
	}
	if n := slices.Index(generalNames, strings.TrimSuffix(s, "L")); n >= 0 {
		return operand{kind: 'r', n: n}
	}
	switch s[0] {
	case '$':
		return operand{kind: 'i', n: number(s[1:])}
	case 'K':
		return operand{kind: 'k', n: number(s[1:])}
	case 'X', 'Y', 'Z':
		return operand{kind: 'v', n: number(s[1:]), lanes: map[byte]int{'X': 4, 'Y': 8, 'Z': 16}[s[0]]}
	}
	panic("unknown operand " + s)
}

func (o *operand) address(m *machine) unsafe.Pointer {
	if o.kind == 's' {
		return o.static
	}
	at := m.general[o.base] + uint64(o.disp)
	if o.index >= 0 {
		at += m.general[o.index] * o.scale
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(&at)) // the argument keeps the memory alive
}

// word returns the value of an 8-byte general operand.
func (o *operand) word(m *machine) uint64 {
	switch o.kind {
	case 'r':
		return m.general[o.n]
	case 'i':
		return uint64(int64(o.n))
	case 'a':
		return uint64(uintptr(unsafe.Pointer(m.arg)))
	}
	return *(*uint64)(o.address(m))
}

func (o *operand) setWord(m *machine, x uint64) {
	if o.kind == 'r' {
		m.general[o.n] = x
	} else {
		*(*uint64)(o.address(m)) = x
	}
}

// read returns the operand's lanes. A broadcast repeats one lane.
func (o *operand) read(m *machine, lanes int, broadcast bool) *[16]uint32 {
	if o.kind == 'v' {
		return &m.vector[o.n]
	}
	var x [16]uint32
	if broadcast {
		y := *(*uint32)(o.address(m))
		for i := range x {
			x[i] = y
		}
		return &x
	}
	copy(x[:], unsafe.Slice((*uint32)(o.address(m)), lanes))
	return &x
}

func f32of(x uint32) float64 { return float64(math.Float32frombits(x)) }

func bitsOf(x float64) uint32 { return math.Float32bits(float32(x)) }

func f64of(x []uint32, i int) float64 {
	return math.Float64frombits(uint64(x[2*i]) | uint64(x[2*i+1])<<32)
}

func setF64(x []uint32, i int, y float64) {
	b := math.Float64bits(y)
	x[2*i], x[2*i+1] = uint32(b), uint32(b>>32)
}

// larger implements MAXPS, which returns the second operand unless the first is larger.
func larger(a, b float64) float64 {
	if a > b {
		return a
	}
	return b
}

// ranged is VRANGEPS with the absolute values' larger or lesser, and the sign of a or none.
func ranged(imm int, a, b float64) float64 {
	x, y := math.Abs(a), math.Abs(b)
	out := y
	switch {
	case b != b:
		out = x
	case a != a:
	case imm&3 == 2 && x <= y, imm&3 == 3 && x >= y:
		out = x
	}
	if imm>>2 == 0 && math.Signbit(a) {
		return -out
	}
	return out
}

// lanewise holds the operations on lanes. The last source in Intel's order comes first.
var lanewise = map[string]func(imm int, x []uint32) uint32{
	"VADDPS": func(_ int, x []uint32) uint32 { return bitsOf(f32of(x[1]) + f32of(x[0])) },
	"VSUBPS": func(_ int, x []uint32) uint32 { return bitsOf(f32of(x[1]) - f32of(x[0])) },
	"VMULPS": func(_ int, x []uint32) uint32 { return bitsOf(f32of(x[1]) * f32of(x[0])) },
	"VMAXPS": func(_ int, x []uint32) uint32 { return bitsOf(larger(f32of(x[1]), f32of(x[0]))) },
	// x[2] is the destination
	"VFMADD213PS": func(_ int, x []uint32) uint32 { return bitsOf(math.FMA(f32of(x[1]), f32of(x[2]), f32of(x[0]))) },
	"VFMSUB213PS": func(_ int, x []uint32) uint32 { return bitsOf(math.FMA(f32of(x[1]), f32of(x[2]), -f32of(x[0]))) },
	"VFMADD231PS": func(_ int, x []uint32) uint32 { return bitsOf(math.FMA(f32of(x[1]), f32of(x[0]), f32of(x[2]))) },
	"VRANGEPS":    func(imm int, x []uint32) uint32 { return bitsOf(ranged(imm, f32of(x[1]), f32of(x[0]))) },
	"VREDUCEPS": func(_ int, x []uint32) uint32 { // the fraction
		y := f32of(x[0])
		if math.IsInf(y, 0) {
			return 0
		}
		return bitsOf(y - math.Floor(y))
	},
	"VSCALEFPS": func(_ int, x []uint32) uint32 { return bitsOf(f32of(x[1]) * math.Exp2(math.Floor(f32of(x[0])))) },
	"VPSRLD":    func(imm int, x []uint32) uint32 { return x[0] >> imm },
	"VPSLLD":    func(imm int, x []uint32) uint32 { return x[0] << imm },
	"VPANDD":    func(_ int, x []uint32) uint32 { return x[0] & x[1] },
	"VPXORD":    func(_ int, x []uint32) uint32 { return x[0] ^ x[1] },
	"VPADDD":    func(_ int, x []uint32) uint32 { return x[0] + x[1] },
	"VMOVAPS":   func(_ int, x []uint32) uint32 { return x[0] },
	"VCVTDQ2PS": func(_ int, x []uint32) uint32 { return bitsOf(float64(int32(x[0]))) },
	"VPTERNLOGD": func(imm int, x []uint32) (out uint32) {
		for bit := range 32 {
			i := (x[2]>>bit&1)<<2 | (x[1]>>bit&1)<<1 | x[0]>>bit&1
			out |= uint32(imm) >> i & 1 << bit
		}
		return out
	},
}

// sources returns the number of sources of an operation, not counting an immediate. If there are three, one is the
// destination.
var sources = map[string]int{
	"VREDUCEPS": 1, "VPSRLD": 1, "VPSLLD": 1, "VMOVAPS": 1, "VCVTDQ2PS": 1, "VFMADD213PS": 3, "VFMSUB213PS": 3,
	"VFMADD231PS": 3, "VPTERNLOGD": 3,
}

// decodeLine turns a line of assembly into a step.
func decodeLine(line string, labels map[string]int, static map[string]*[4096]byte) step {
	op, rest, _ := strings.Cut(line, " ")
	op, suffix, _ := strings.Cut(op, ".")
	done := func(f func(m *machine)) step {
		return func(m *machine, at int) int { f(m); return at + 1 }
	}
	if target, ok := labels[strings.TrimSpace(rest)]; ok {
		return func(m *machine, at int) int {
			if op == "JLT" && !m.less {
				return at + 1
			}
			return target
		}
	}
	switch op {
	case "RET":
		return func(*machine, int) int { return -1 }
	case "PREFETCHT1", "PCALIGN", "VZEROUPPER", "SFENCE":
		return done(func(*machine) {})
	}
	var o []operand
	for s := range strings.SplitSeq(rest, ", ") {
		o = append(o, parseOperand(strings.TrimSpace(s), static))
	}
	if f := general(op, o); f != nil {
		return done(f)
	}
	if f := wholeVectors(op, o); f != nil {
		return done(f)
	}
	f, ok := lanewise[op]
	if !ok {
		panic("unknown instruction " + line)
	}
	return done(lanes(f, op, suffix, o))
}

// lanes applies an operation to every lane selected by a mask, or to all lanes without a mask.
func lanes(f func(int, []uint32) uint32, op, suffix string, o []operand) func(*machine) {
	imm, mask, dst := 0, -1, o[len(o)-1]
	if o[0].kind == 'i' {
		imm, o = o[0].n, o[1:]
	}
	if n := len(o) - 2; n >= 0 && o[n].kind == 'k' {
		mask = o[n].n
		o = slices.Delete(slices.Clone(o), n, n+1)
	}
	n := 2
	if s, ok := sources[op]; ok {
		n = s
	}
	o = o[:n]
	return func(m *machine) {
		var in [3]*[16]uint32
		for i := range o {
			in[i] = o[i].read(m, dst.lanes, suffix == "BCST")
		}
		old := m.vector[dst.n]
		var x [3]uint32
		for lane := range 16 {
			if lane >= dst.lanes {
				m.vector[dst.n][lane] = 0
				continue
			}
			for i := range o {
				x[i] = in[i][lane]
				if in[i] == &m.vector[dst.n] {
					x[i] = old[lane]
				}
			}
			if mask < 0 || m.mask[mask]>>lane&1 == 1 {
				if y := f(imm, x[:]); suffix == "RD_SAE" {
					m.vector[dst.n][lane] = roundDown(y, x[1], x[0])
				} else {
					m.vector[dst.n][lane] = y
				}
			}
		}
	}
}

// roundDown returns the sum of a and b, whose nearest float is y, rounded down.
func roundDown(y, a, b uint32) uint32 {
	if f := math.Float32frombits(y); float64(f) > f32of(a)+f32of(b) {
		return math.Float32bits(math.Nextafter32(f, negInf))
	}
	return y
}

// general executes instructions on general registers and masks. It returns nil for other instructions.
func general(op string, o []operand) func(*machine) {
	last := &o[len(o)-1]
	switch op {
	case "MOVQ":
		return func(m *machine) { last.setWord(m, o[0].word(m)) }
	case "MOVL":
		return func(m *machine) { last.setWord(m, uint64(uint32(o[0].word(m)))) }
	case "ADDQ":
		return func(m *machine) { last.setWord(m, last.word(m)+o[0].word(m)) }
	case "XORQ":
		return func(m *machine) { last.setWord(m, last.word(m)^o[0].word(m)) }
	case "LEAQ":
		return func(m *machine) { last.setWord(m, uint64(uintptr(o[0].address(m)))) }
	case "CMPQ":
		return func(m *machine) { m.less = int64(o[0].word(m)) < int64(o[1].word(m)) }
	case "CMOVQGE":
		return func(m *machine) {
			if !m.less {
				last.setWord(m, o[0].word(m))
			}
		}
	case "KMOVW":
		return func(m *machine) { m.mask[last.n] = uint32(o[0].word(m)) & 0xffff }
	case "KNOTW":
		return func(m *machine) { m.mask[last.n] = ^m.mask[o[0].n] & 0xffff }
	case "VCVTTSD2SIQ":
		return func(m *machine) { last.setWord(m, uint64(int64(f64of(m.vector[o[0].n][:], 0)))) }
	}
	return nil
}

// wholeVectors executes instructions that don't work lane by lane. It returns nil for other instructions.
func wholeVectors(op string, o []operand) func(*machine) {
	last := &o[len(o)-1]
	set := func(m *machine, x [16]uint32) {
		clear(x[last.lanes:])
		m.vector[last.n] = x
	}
	switch op {
	case "VMOVUPS", "VMOVNTPS", "VMOVDQU32", "VMOVAPS", "VMOVAPD", "VMOVSD", "VMOVSS":
		if o[1].kind == 'k' {
			return nil
		}
		n := map[string]int{"VMOVSD": 2, "VMOVSS": 1}[op]
		return func(m *machine) {
			if last.kind == 'v' {
				set(m, *o[0].read(m, last.lanes, false))
				return
			}
			count := n
			if n == 0 {
				count = o[0].lanes
			}
			copy(unsafe.Slice((*uint32)(last.address(m)), count), m.vector[o[0].n][:])
		}
	case "VBROADCASTSS":
		return func(m *machine) { set(m, *o[0].read(m, 1, true)) }
	case "VPERMPS", "VPERMT2PS":
		return func(m *machine) {
			var x [16]uint32
			index, first, second := m.vector[o[1].n], *o[0].read(m, 16, false), [16]uint32{}
			if op == "VPERMT2PS" {
				first, second = m.vector[last.n], first
			}
			for i, at := range index {
				if x[i] = first[at&15]; op == "VPERMT2PS" && at&16 != 0 {
					x[i] = second[at&15]
				}
			}
			set(m, x)
		}
	case "VEXTRACTF32X8", "VEXTRACTF64X4", "VEXTRACTF64X2", "VEXTRACTF32X4":
		return func(m *machine) {
			var x [16]uint32
			copy(x[:], m.vector[o[1].n][o[0].n*last.lanes:])
			set(m, x)
		}
	case "VCVTPS2PD":
		return func(m *machine) {
			var x [16]uint32
			in := m.vector[o[0].n]
			for i := range 8 {
				setF64(x[:], i, f32of(in[i]))
			}
			set(m, x)
		}
	case "VADDPD", "VADDSD":
		return func(m *machine) {
			a, b := m.vector[o[1].n], m.vector[o[0].n]
			x := a
			for i := range 8 {
				if i == 0 || op == "VADDPD" {
					setF64(x[:], i, f64of(a[:], i)+f64of(b[:], i))
				}
			}
			set(m, x)
		}
	case "VPERMILPD":
		return func(m *machine) {
			x := m.vector[o[1].n]
			x[0], x[1], x[2], x[3] = x[2], x[3], x[0], x[1] // imm 1; the upper half isn't used
			set(m, x)
		}
	case "VPERMILPS":
		return func(m *machine) {
			var x [16]uint32
			for i := range 4 {
				x[i] = m.vector[o[1].n][o[0].n>>(2*i)&3]
			}
			set(m, x)
		}
	case "VCVTPH2PS", "VPMOVZXWD":
		return func(m *machine) {
			var x [16]uint32
			for i, h := range unsafe.Slice((*uint16)(o[0].address(m)), 16) {
				if x[i] = uint32(h); op == "VCVTPH2PS" {
					x[i] = math.Float32bits(float16ToFloat32(h))
				}
			}
			set(m, x)
		}
	case "VCMPPS":
		return func(m *machine) {
			a, b := *o[2].read(m, 16, false), *o[1].read(m, 16, false)
			m.mask[last.n] = 0
			for i := range a {
				var holds bool
				switch x, y := f32of(a[i]), f32of(b[i]); o[0].n {
				case 0x12:
					holds = x <= y
				case 0x1e:
					holds = x > y
				default:
					panic(fmt.Sprint("unknown comparison ", o[0].n))
				}
				if holds {
					m.mask[last.n] |= 1 << i
				}
			}
		}
	}
	return nil
}
