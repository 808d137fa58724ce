package kernels

import (
	"cmp"
	"math"
	"math/bits"
	"unsafe"
)

// DType is the element type of a Matrix.
type DType uint8

// The element types.
const (
	Float32 DType = iota
	BFloat16
	Float16

	float64s DType = 255 // float64, which only the reference uses
)

func (d DType) String() string {
	if d > Float16 {
		return "unknown"
	}
	return [...]string{"float32", "bfloat16", "float16"}[d]
}

// Size returns the size of an element in bytes.
func (d DType) Size() int {
	if d == Float32 {
		return 4
	}
	return 2
}

// Matrix is a view of Rows x Cols logits, row-major. Row r starts at element r*Stride; a Stride of 0 means Cols.
// F32 holds float32 logits, U16 the bit patterns of bfloat16 or float16 ones.
type Matrix struct {
	DType      DType
	F32        []float32
	U16        []uint16
	Rows, Cols int
	Stride     int
}

// F32Matrix views contiguous float32 rows.
func F32Matrix(x []float32, rows, cols int) Matrix {
	return Matrix{DType: Float32, F32: x, Rows: rows, Cols: cols}
}

// BF16Matrix views contiguous rows of bfloat16 bit patterns.
func BF16Matrix(x []uint16, rows, cols int) Matrix {
	return Matrix{DType: BFloat16, U16: x, Rows: rows, Cols: cols}
}

// F16Matrix views contiguous rows of float16 bit patterns.
func F16Matrix(x []uint16, rows, cols int) Matrix {
	return Matrix{DType: Float16, U16: x, Rows: rows, Cols: cols}
}

func (m *Matrix) stride() int { return cmp.Or(m.Stride, m.Cols) }

func (m *Matrix) len() int {
	if m.DType == Float32 {
		return len(m.F32)
	}
	return len(m.U16)
}

// check validates shape and storage; side names the matrix in errors.
func (m *Matrix) check(side string) error {
	st := m.stride()
	hi, lo := bits.Mul64(uint64(m.Rows-1), uint64(st))
	need := lo + uint64(m.Cols)
	switch {
	case m.DType > Float16:
		return fail(CodeShape, "%s: unknown element type %d", side, m.DType)
	case m.Rows < 0 || m.Cols < 0:
		return fail(CodeShape, "%s: rows=%d V=%d must not be negative", side, m.Rows, m.Cols)
	case m.Rows == 0:
	case m.Cols == 0:
		return fail(CodeShape, "%s: V=0 with rows=%d", side, m.Rows)
	case st < m.Cols:
		return fail(CodeShape, "%s: stride %d is smaller than V=%d", side, st, m.Cols)
	case hi != 0 || need < lo || need > math.MaxInt/4:
		return fail(CodeShape, "%s: rows x V = %d x %d: overflow", side, m.Rows, m.Cols)
	case m.Stride == 0 && m.len() != m.Rows*m.Cols:
		return fail(CodeShape, "%s: len is %d, want rows x V = %d x %d", side, m.len(), m.Rows, m.Cols)
	case m.len() < int(need):
		return fail(CodeShape, "%s: len is %d, rows=%d V=%d stride=%d need %d", side, m.len(), m.Rows, m.Cols, st, need)
	}
	return nil
}

// row returns a pointer to the first element of row r.
func (m *Matrix) row(r int) unsafe.Pointer {
	if m.DType == Float32 {
		return unsafe.Pointer(&m.F32[r*m.stride()])
	}
	return unsafe.Pointer(&m.U16[r*m.stride()])
}

// At returns the exact element at row r and column c.
func (m *Matrix) At(r, c int) float64 { return load(m.row(r), m.DType, c) }

func load(p unsafe.Pointer, d DType, i int) float64 {
	switch d {
	case Float32:
		return float64(*(*float32)(unsafe.Add(p, 4*i)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(*(*uint16)(unsafe.Add(p, 2*i))) << 16))
	case float64s:
		return *(*float64)(unsafe.Add(p, 8*i))
	default:
		return float64(float16ToFloat32(*(*uint16)(unsafe.Add(p, 2*i))))
	}
}

// float16ToFloat32 decodes an IEEE 754 half.
func float16ToFloat32(h uint16) float32 {
	sign, exp, man := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&1023)
	switch exp {
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | man<<13)
	case 0:
		v := float32(man) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | man<<13)
}
