package tensors

import "math"

// DType is the type of a tensor's items, as safetensors spells it.
type DType string

// The item types batches use.
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

// sizes of an item in bytes.
var sizes = map[DType]int{Int64: 8, Float64: 8, Int32: 4, Float32: 4, Float16: 2, BFloat16: 2, Uint8: 1, Bool: 1}

// Size is the number of bytes of an item, 0 for a type this package doesn't know.
func (d DType) Size() int { return sizes[d] }

// BFloat16Bits returns v as bfloat16, rounded to nearest even.
func BFloat16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40 // stays a NaN
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// BFloat16Value is the value of bfloat16 bits.
func BFloat16Value(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

// Float16Bits returns v as IEEE 754 half precision, rounded to nearest even.
func Float16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	switch {
	case v != v:
		return sign | 0x7E00
	case bits&0x7FFFFFFF >= 0x477FF000: // rounds to infinity
		return sign | 0x7C00
	case bits&0x7FFFFFFF < 0x38800000: // subnormal or zero: units of 2^-24
		return sign | uint16(math.RoundToEven(math.Abs(float64(v))*(1<<24)))
	}
	// Rebias the exponent from 127 to 15 and round away 13 bits of mantissa.
	return sign | uint16((bits&0x7FFFFFFF-0x38000000+0xFFF+bits>>13&1)>>13)
}

// Float16Value is the value of half precision bits.
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
