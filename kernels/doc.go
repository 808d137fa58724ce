// Package kernels computes distillation and preference losses over rows of logits, with gradients with respect to the
// student. Logits are float32, bfloat16 or float16 in row-major [rows, columns], losses are float64 in nats, and
// gradients are float32. Bad shapes cause an *Error and nothing is written; a row without a softmax has a NaN loss and
// is counted. README.md has the formulas and the policy for bad input. Part of the supported Go API (v0).
package kernels
