// Package grpo passes on rollouts with their rewards, grouped by task, for group-relative policy optimisation.
//
// By default, even a rollout without a reward is passed on: rewards are compared across all scored rollouts of the
// task, and a missing reward is not a reward of zero. If a rollout has branches, each branch is a record, and the
// branches share the reward.
//
// Scored answers to the same prompt are rollouts of one turn. If the answers of a turn had different prompts, each
// prompt is a task of its own, because part of the difference between their rewards is due to the prompts.
//
// Tasks that teach nothing (too few rollouts, or equal rewards) can be dropped whole but never in part, because an
// advantage computed over half a group is wrong.
//
// Part of the Go API we promise (v0).
package grpo
