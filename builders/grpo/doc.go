// Package grpo passes on rollouts with their rewards, grouped by task, for group-relative policy optimisation.
//
// By default, even a rollout without a reward is passed on: a reward is compared with the rewards of all scored
// rollouts of the task, and having no reward is not a reward of zero. In a rollout with branches each branch is a
// record; the branches share the reward.
//
// Tasks that teach nothing - too few rollouts, or all rewards equal - can be dropped whole but never in part: an
// advantage computed over half a group is wrong.
package grpo
