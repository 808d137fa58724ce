// Package sft builds demonstrations - conversations to imitate - from scored examples (`_type: sft_traj_builder`).
//
// What is chosen from are the rollouts of a task (traces with a reward) or, where an example has them, the candidates of
// each of its turns. The best n of them, those that reach a threshold, or all become demonstrations; each of the others is
// dropped once, with the reason. An unscored rollout is neither good nor bad: only `select: all` takes it.
//
// A demonstration refers to the messages of its example. Where a rollout has branches, each becomes one demonstration, and a
// turn that several branches share is trained in the first of them only.
//
// Not part of the promised API.
package sft
