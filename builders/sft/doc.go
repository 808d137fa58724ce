// Package sft builds demonstrations - conversations to imitate - from scored examples (`_type: sft_traj_builder`).
//
// The choice is among the rollouts of a task (traces with a reward) or, if an example has them, among the candidates
// for each of its turns. The best ones, the ones above a threshold, or all of them become demonstrations; each of the
// others is dropped once, with the reason. The best are the first n with the best score that differ in their words. A
// task without a single scored rollout was not meant to be selected from: all of it is imitated unless a selection is
// configured. Next to scored rollouts, an unscored one is neither good nor bad: only `select: all` includes it.
//
// Unless `min_score` or `select: all` is set, failed rollouts and answers are not imitated, even if their task has
// nothing better. A rollout or answer failed if its score is 0 when all scores of the input are 0 or 1, or else if its
// score is the input's worst; a group without the input's scale uses the scale of its own scores.
//
// Failed tool calls are not imitated: they stay as context, together with their results, because later turns respond to
// them. A turn with several calls of which one failed is context as a whole. A demonstration ends with its last trained
// turn.
//
// The reasoning of a trained turn is trained with it, since the model writes it before the answer; train_reasoning:
// false leaves it in the context only.
//
// In a rollout with branches each branch becomes a demonstration, and a turn shared by several branches is trained only
// in the first.
package sft
