// Package kernels computes distillation and preference losses over rows of logits, with gradients with respect to the
// student: logits are float32, bfloat16 or float16 in row-major [rows, columns], losses float64 in nats, gradients
// float32. Bad shapes are an *Error and write nothing; a row without a softmax has a NaN loss and is counted. README.md
// has the formulas, how the assembly works and the policy for bad input. Part of the Go API we promise (v0).
package kernels
