// Package loss computes the composite objective over a batch and a model's logits for it, with gradients:
//
//	L = grpo + alpha_sdpo * jsd + beta_replay * dpo
//
// It exists so that the author of a trainer can check their loss against an exact one. It avoids the faults common in
// composite trainers: logits at position t-1 predict token t, masks are 0/1 and token-aligned, denominators cover the
// whole step, a channel with nothing active is exactly 0 with a zero gradient, and missing reference log-probabilities
// are an error, never zeros.
//
// Package kernels does the arithmetic; the columns are read from the batch files, as plain slices. Reductions: jsd is
// sum(w l)/sum(w) over the step; dpo the same over pairs (their mean if all weights are 1); grpo by token, sequence or
// constant.
//
// ReadRows and ReadDump read their input from safetensors files, for `nat-go loss`.
package loss
