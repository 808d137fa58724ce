package loss

import (
	"fmt"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// columns reads tensors from files by name. A tensor comes from the first file that contains it. It stops reading at
// the first error.
type columns struct {
	files []*tensors.File
	names map[string]string         // names of the columns in files in the composer layout; nil for other layouts
	made  map[string]tensors.Tensor // columns computed from other tensors, for files in the composer layout
	err   error
}

func (c *columns) has(name string) bool {
	if _, ok := c.made[name]; ok {
		return true
	}
	_, _, ok := c.find(name)
	return ok
}

// find returns the file that contains a tensor, and the tensor's name there.
func (c *columns) find(name string) (*tensors.File, string, bool) {
	for _, own := range []string{name, c.names[name]} {
		for _, f := range c.files {
			if _, ok := f.Lookup(own); ok {
				return f, own, true
			}
		}
	}
	return nil, "", false
}

// take reads a tensor with the given number of dimensions. It returns false if none of the files has it or an error has
// occurred.
func (c *columns) take(name string, dims int) (t tensors.Tensor, ok bool) {
	if t, ok := c.made[name]; ok {
		return t, c.err == nil
	}
	f, own, ok := c.find(name)
	if c.err != nil || !ok {
		return t, false
	}
	if info, _ := f.Lookup(own); len(info.Shape) != dims { // check before reading the tensor
		c.err = fmt.Errorf("invalid tensor %s: got shape %v, expected %d dimensions", own, info.Shape, dims)
		return t, false
	}
	t, c.err = f.Read(own)
	return t, c.err == nil
}

// fail records an error, unless one has already been recorded.
func (c *columns) fail(format string, a ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, a...)
	}
}

func (c *columns) need(name string, dims int) tensors.Tensor {
	t, ok := c.take(name, dims)
	if !ok && c.err == nil {
		c.err = fmt.Errorf("missing tensor %s", name)
	}
	return t
}

// ints reads a tensor of whole numbers.
func (c *columns) ints(name string, dims int) (v []int64, shape []int) {
	t := c.need(name, dims)
	if c.err != nil {
		return nil, nil
	}
	v, c.err = integers(t)
	return v, t.Shape
}

func integers(t tensors.Tensor) ([]int64, error) {
	if t.DType != tensors.Int32 {
		return tensors.Items[int64](t)
	}
	narrow, err := tensors.Items[int32](t)
	return convert[int64](narrow), err
}

// floats reads a tensor of numbers. It returns nil if the tensor is absent.
func (c *columns) floats(name string, dims int) []float32 {
	t, ok := c.take(name, dims)
	if !ok {
		return nil
	}
	var wide []float64
	wide, c.err = tensors.Floats(t)
	return convert[float32](wide)
}

// convert converts numbers to another type. The result for nil is nil.
func convert[U, T int32 | int64 | float32 | float64](list []T) []U {
	if list == nil {
		return nil
	}
	out := make([]U, len(list))
	for i, x := range list {
		out[i] = U(x)
	}
	return out
}

// logits reads logits of shape [rows, V], or of shape [R, T, V] as R*T rows.
func (c *columns) logits(name string, dims int) kernels.Matrix {
	t := c.need(name, dims)
	if c.err != nil {
		return kernels.Matrix{}
	}
	rows := 1
	for _, d := range t.Shape[:dims-1] {
		rows *= d
	}
	var m kernels.Matrix
	m, c.err = matrix(t, rows, t.Shape[dims-1])
	return m
}

// matrix returns a tensor's items as a matrix of logits.
func matrix(t tensors.Tensor, rows, cols int) (kernels.Matrix, error) {
	switch t.DType {
	case tensors.Float32:
		x, err := tensors.Items[float32](t)
		return kernels.F32Matrix(x, rows, cols), err
	case tensors.BFloat16:
		x, err := tensors.Bits(t)
		return kernels.BF16Matrix(x, rows, cols), err
	case tensors.Float16:
		x, err := tensors.Bits(t)
		return kernels.F16Matrix(x, rows, cols), err
	}
	return kernels.Matrix{}, fmt.Errorf("invalid tensor %s: got %s, expected logits in F32, BF16 or "+
		"F16", t.Name, t.DType)
}

// toCommonType converts two sides of different element types to float32, which represents both exactly.
func toCommonType(a, b *kernels.Matrix) {
	if a.DType == b.DType {
		return
	}
	for _, m := range []*kernels.Matrix{a, b} {
		switch m.DType {
		case kernels.BFloat16:
			*m = kernels.F32Matrix(lists.Map(m.U16, tensors.BFloat16Value), m.Rows, m.Cols)
		case kernels.Float16:
			*m = kernels.F32Matrix(lists.Map(m.U16, tensors.Float16Value), m.Rows, m.Cols)
		}
	}
}

// gather copies rows from a matrix.
func gather(m kernels.Matrix, at []int) kernels.Matrix {
	if m.DType == kernels.Float32 {
		return kernels.F32Matrix(pick(m.F32, at, m.Cols), len(at), m.Cols)
	}
	return kernels.Matrix{DType: m.DType, U16: pick(m.U16, at, m.Cols), Rows: len(at), Cols: m.Cols}
}

func pick[T any](items []T, rows []int, cols int) []T {
	x := make([]T, 0, len(rows)*cols)
	for _, r := range rows {
		x = append(x, items[r*cols:(r+1)*cols]...)
	}
	return x
}
