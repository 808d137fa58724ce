package tensors

import "math"

// DType is the element type of a tensor. Its values are the names that safetensors uses.
type DType string

// The element types of batches.
const (
	Int64    DType = "I64"
	Float64  DType = "F64"
	Int32    DType = "I32"
	Float32  DType = "F32"
	Float16  DType = "F16"
	BFloat16 DType = "BF16"
	Uint8    DType = "U8"
	Bool     DType = "BOOL"
)

// sizes maps an element type to its size in bytes.
var sizes = map[DType]int{Int64: 8, Float64: 8, Int32: 4, Float32: 4, Float16: 2, BFloat16: 2, Uint8: 1, Bool: 1}

// Size returns the number of bytes in an element, or 0 for an unknown type.
func (d DType) Size() int { return sizes[d] }

// BFloat16Value returns the value with the given bfloat16 bits.
func BFloat16Value(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Float16Value returns the value with the given half-precision bits.
func Float16Value(bits uint16) float32 {
	sign := float32(1)
	if bits&0x8000 != 0 {
		sign = -1
	}
	exponent, mantissa := int(bits>>10&0x1F), float64(bits&0x3FF)
	switch exponent {
	case 0x1F:
		if mantissa != 0 {
			return float32(math.NaN())
		}
		return sign * float32(math.Inf(1))
	case 0:
		return sign * float32(mantissa/(1<<24))
	}
	return sign * float32(math.Ldexp(1+mantissa/1024, exponent-15))
}
