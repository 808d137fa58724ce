// Package grpo hands on rollouts with their rewards, grouped by task, for group-relative policy optimisation.
//
// Every rollout of a task goes on, also one without a reward: what a reward is compared with is all scored rollouts of
// the task, and no reward is not a reward of zero. Of a rollout with branches each branch is a record; they share the
// reward.
//
// Tasks that teach nothing - fewer rollouts than asked for, all rewards equal - can be left out whole, never in part:
// an advantage over half a group is a wrong one.
//
// Not part of the promised API.
package grpo
