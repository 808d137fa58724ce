// Package divergence builds preference pairs from whole rollouts of the same task (`_type: divergence_traj_builder`).
//
// Two scored rollouts of the same task begin with the same messages and diverge at some point. The messages they
// share become the prompt, the rest of the better rollout is chosen, and the rest of the worse one is rejected.
// Messages from the environment are context on both sides, and only the model's own turns are trained on. The pair
// therefore contrasts the step at which one rollout began to go wrong, and ignores the steps that both took.
//
// Only rollouts that had the same tools and system prompt are compared. Rollouts that began with the same messages
// are compared as above. Simulated users, however, word the same request differently each time. Rollouts that differ
// in wording are therefore compared at the first action that differs after the same calls and results, regardless of
// the text in between. Each side is then that single turn, in the context of the better rollout. A strategy from
// package pairs selects pairs by score, and every refusal is recorded with its reason. Rollouts of other tasks don't
// affect the pairs.
//
// With `compare: branches`, the branches of a single session are compared instead, without scores. Where the model
// answered the same messages more than once, the answer that the session continued from is chosen, and one that it
// abandoned is rejected. The chosen side never has more model turns than the rejected one.
//
// Part of the supported Go API (v0).
package divergence
