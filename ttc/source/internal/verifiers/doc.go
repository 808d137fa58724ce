// Package verifiers reads the rollouts of verifiers and prime-rl. A trace from version 1 is a graph of nodes with the
// engine's ids and log-probs. A result from version 0 holds lists of messages.
//
// In a version 1 trace, a sampled turn may be a leaf, while the history continues through a copy next to it. This
// happens if the template renders a call differently from how it was sampled. Such copies are context; each sampled
// turn is trained on in its sampled form, with the engine's ids.
//
// In version 1, a rollout's reward is the weighted sum of its scores; an unscored rollout doesn't count as zero. Trials
// of one problem share a task. Traces of agents that are not to be trained, and rollouts that ended in an error, are
// counted and omitted.
package verifiers
