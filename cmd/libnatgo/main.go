//go:build cshared

// Command libnatgo exports the divergence of package kernels as a C library, for use in the same process as torch.
// natgo/kernel.py calls the library, the wheel contains it, and `.ci/portable` builds it:
//
//	go build -tags cshared -buildmode=c-shared -o libnatgo.so ./cmd/libnatgo
//
// This is the only package here that imports "C". The tag excludes it from other builds and from linters. Compiled
// cgo files contain the checkout's path, but builds with -trimpath share them between checkouts, so linters would
// look for files in a deleted checkout.
package main

/*
#include <stdint.h>

typedef struct {
	void *student, *teacher; // logits; each row has cols elements, and rows begin stride elements apart
	int64_t rows, cols, student_stride, teacher_stride;
	int64_t dtype; // kernels.DType of both sides
	double beta, temperature, clip; // a clip of 0 means no clipping
	int64_t normalize, workers;
	double *loss; // [rows]
	float *grad;  // [rows, cols], gradient of each row's loss with respect to its student logits; or NULL
	char *message; // reason why the call failed, NUL-terminated
	int64_t room;  // size of message in bytes
} natgo_call;
*/
import "C"

import (
	"sync"
	"unsafe"

	"github.com/nat-go/nat-go/kernels"
)

func main() {}

// natgo_jsd computes the losses and gradients for a call. It returns 0, or 1 with a message. It may be called from
// several threads at once, but not in a process that was forked after the library was loaded, because Go's other
// threads don't exist there.
//
//export natgo_jsd
func natgo_jsd(c *C.natgo_call) C.int {
	if err := jsd(c); err != nil {
		message := unsafe.Slice((*byte)(unsafe.Pointer(c.message)), int(c.room))
		message[copy(message[:len(message)-1], err.Error())] = 0
		return 1
	}
	return 0
}

func jsd(c *C.natgo_call) error {
	o := kernels.Options{
		Beta: float64(c.beta), Temperature: float64(c.temperature), ClipValue: float64(c.clip),
		Normalize: c.normalize != 0, Workers: int(c.workers),
	}
	if c.clip > 0 {
		o.Clip = kernels.ClipToken
	}
	j, err := prepared(o)
	if err != nil {
		return err
	}
	rows, cols := int(c.rows), int(c.cols)
	out := kernels.Output{RowLoss: unsafe.Slice((*float64)(unsafe.Pointer(c.loss)), rows)}
	if c.grad != nil {
		out.Grad = unsafe.Slice((*float32)(unsafe.Pointer(c.grad)), rows*cols)
	}
	_, err = j.Run(&kernels.Batch{
		Student: matrix(c, c.student, c.student_stride), Teacher: matrix(c, c.teacher, c.teacher_stride),
	}, &out)
	return err
}

func matrix(c *C.natgo_call, at unsafe.Pointer, stride C.int64_t) kernels.Matrix {
	m := kernels.Matrix{DType: kernels.DType(c.dtype), Rows: int(c.rows), Cols: int(c.cols), Stride: int(stride)}
	if n := (m.Rows-1)*m.Stride + m.Cols; m.DType == kernels.Float32 {
		m.F32 = unsafe.Slice((*float32)(at), n)
	} else {
		m.U16 = unsafe.Slice((*uint16)(at), n)
	}
	return m
}

// last holds the kernel for the last call's options. A training run uses one set of options throughout, or changes beta
// slowly.
var last struct {
	sync.Mutex
	options kernels.Options
	jsd     *kernels.JSD
}

// prepared returns the kernel for options. It creates one if the last call had different options.
func prepared(o kernels.Options) (*kernels.JSD, error) {
	last.Lock()
	defer last.Unlock()
	if last.jsd == nil || last.options != o {
		j, err := kernels.NewJSD(o)
		if err != nil {
			return nil, err
		}
		last.options, last.jsd = o, j
	}
	return last.jsd, nil
}
