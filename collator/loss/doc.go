// Package loss computes the composite objective, with gradients, from a batch and the model's logits for it:
//
//	L = grpo + alpha_sdpo * jsd + beta_replay * dpo
//
// Authors of trainers can use it to check their loss against an exact one. It follows rules that composite trainers
// often break: logits at position t-1 predict token t, masks are 0/1 and token-aligned, denominators cover the whole
// step, a channel with nothing active is exactly 0 with a zero gradient, and missing reference log-probabilities are
// an error, never zeros.
//
// Package kernels does the arithmetic on columns read from the batch files as plain slices. jsd is reduced as sum(w
// l)/sum(w) over the step, and dpo likewise over pairs (their mean if all weights are 1); grpo is reduced per token,
// per sequence or by a constant.
//
// ReadRows and ReadDump read their input from safetensors files, for `nat-go loss`.
package loss
