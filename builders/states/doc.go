// Package states builds prompts without answers (`_type: states_traj_builder`), for trainers that sample for
// themselves: GRPO, online DPO, distillation.
//
// A state is the prompt of a turn of a recorded rollout: at a failed call, at the action at which the rollout diverges
// from better ones of its task (both as package sdpo finds them), or at each k-th turn; the setting where may exclude
// turns. The prompt ends before the turn, so it doesn't contain the rollout's action there. The record's metadata
// holds the action and its outcome: at (the class of the failed call, divergence or turns), message, action, outcome,
// reward, and agent_ref, the agent that continues from there, if one is configured.
//
// Branches of an example that share a turn share its state. Curation keeps the first of equal prompts.
package states
