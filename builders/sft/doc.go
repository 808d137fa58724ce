// Package sft builds demonstrations, which are conversations to imitate, from scored examples (`_type:
// sft_traj_builder`).
//
// It chooses among a task's rollouts (traces with a reward) or, if an example has them, among the candidates for each
// of its turns. The best ones, the ones above a threshold, or all of them become demonstrations. The others are each
// dropped once, with the reason. The best are the first n with the best score and different text. All rollouts of a
// task without scores are imitated, unless a selection is configured. In a task with scored rollouts, only `select:
// all` includes an unscored one, because it is unknown whether it is good.
//
// Unless `min_score` or `select: all` is set, failed rollouts and answers are not imitated, even if their task has no
// better ones. If all scores in the input are 0 or 1, a rollout or answer with a score of 0 failed; otherwise, one with
// the input's worst score failed. If the input's scores are unknown, those of the group are used instead.
//
// Failed tool calls are not imitated. They are kept as context, together with their results, because later turns
// respond to them. If any call in a turn failed, the whole turn is context. A demonstration ends with its last trained
// turn.
//
// The reasoning in a trained turn is trained on, too, because the model writes it before the answer. With
// train_reasoning: false, it is only context.
//
// In a rollout with branches, each branch becomes a demonstration, and a turn shared by several branches is trained on
// only in the first.
//
// Part of the supported Go API (v0).
package sft
