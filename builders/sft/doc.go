// Package sft builds demonstrations - conversations to imitate - from scored examples (`_type: sft_traj_builder`).
//
// What is chosen from are the rollouts of a task (traces with a reward) or, where an example has them, the candidates
// of each of its turns. The best n of them, those that reach a threshold, or all become demonstrations; each of the
// others is dropped once, with the reason. A task of which no rollout is scored was not meant to be chosen from: all of
// it is imitated, unless a selection is configured. Beside scored ones an unscored rollout is neither good nor bad:
// only `select: all` takes it.
//
// Tool calls that failed are not imitated: they are left out with their results, and counted, or kept as context. A
// demonstration ends with the last turn that is trained.
//
// A demonstration refers to the messages of its example. Where a rollout has branches, each becomes one demonstration,
// and a turn that several branches share is trained in the first of them only.
//
// Not part of the promised API.
package sft
