package kernels_test

import (
	"fmt"

	"github.com/nat-go/nat-go/kernels"
)

// The divergence of two rows of three tokens, the second of which is ignored, and the gradient with respect to the
// student.
func ExampleJSD_Run() {
	student := []float32{2, 1, 0, 0, 0, 0}
	teacher := []float32{0, 1, 2, 5, 5, 5}
	jsd, err := kernels.NewJSD(kernels.Options{Beta: 0.5, Temperature: 1, Reduction: kernels.ReduceSum})
	if err != nil {
		fmt.Println(err)
		return
	}
	gradient := make([]float32, len(student))
	stats, err := jsd.Run(&kernels.Batch{
		Student: kernels.F32Matrix(student, 2, 3),
		Teacher: kernels.F32Matrix(teacher, 2, 3),
		Labels:  []int32{1, kernels.IgnoreIndex},
	}, &kernels.Output{Grad: gradient})
	fmt.Printf("%.4f over %d row, gradient %.4f, %v\n", stats.Loss, stats.Active, gradient, err)
	// Output: 0.2476 over 1 row, gradient [0.1060 -0.0303 -0.0757 0.0000 0.0000 0.0000], <nil>
}
