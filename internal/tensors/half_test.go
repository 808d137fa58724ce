package tensors

import (
	"fmt"
	"math"
	"unsafe"
)

// bfloat16Bits returns v as bfloat16, rounded to nearest even.
func bfloat16Bits(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40 // stays a NaN
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}

// float16Bits returns v as IEEE 754 half precision, rounded to nearest even.
func float16Bits(v float32) uint16 {
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

// half makes an F16 or BF16 tensor from bits.
func half(name string, dtype DType, bits []uint16, shape ...int) Tensor {
	n, ok := volume(shape)
	if dtype.Size() != 2 || !ok || n != len(bits) {
		panic(fmt.Sprintf("tensor %q: %s of shape %v for %d items", name, dtype, shape, len(bits)))
	}
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(bits))), 2*len(bits))
	return Tensor{Name: name, DType: dtype, Shape: shape, Data: data}
}
