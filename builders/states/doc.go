// Package states builds prompts without answers (`_type: states_traj_builder`), for trainers that sample answers
// themselves: GRPO, online DPO, distillation.
//
// A state is the prompt of a turn in a recorded rollout: at a failed call, at the action where the rollout diverges
// from better ones for its task (both as package sdpo finds them), or at every k-th turn. The `where` setting may
// exclude turns. The prompt ends before the turn, so it doesn't contain the action that the rollout took there. The
// record's metadata holds the action and its outcome: at (the class of the failed call, divergence or turns), message,
// action, outcome, reward, and agent_ref, the agent that continues from there, if one is configured.
//
// Branches of an example that share a turn share its state. If prompts are equal, curation keeps only the first.
//
// Part of the supported Go API (v0).
package states
