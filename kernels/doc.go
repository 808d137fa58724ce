// Package kernels computes distillation and preference losses over rows of logits.
package kernels
