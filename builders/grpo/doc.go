// Package grpo passes on rollouts with their rewards, grouped by task, for group-relative policy optimisation.
//
// By default, a rollout without a reward is also passed on. Rewards are compared across the scored rollouts of the
// task, and a missing reward is not a reward of zero. If a rollout has branches, each branch is a record, and the
// branches share the reward.
//
// Scored answers to the same prompt are rollouts of one turn. If the answers of a turn had different prompts, each
// prompt is a separate task, because part of the difference between their rewards is due to the prompts.
//
// Tasks that don't contribute to training (too few rollouts, or equal rewards) can be dropped as a whole, but never
// in part, because an advantage computed over part of a group would be wrong.
//
// Part of the supported Go API (v0).
package grpo
