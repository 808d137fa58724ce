// Package traces reads whole agent runs in the OpenAI chat format: JSON lines or one array, with one entry per rollout.
//
// An entry is an object with its messages and, if it has them, tools, reward, task, trial and model; the key names
// can be configured. Scored answers that were considered at single turns may be listed next to the messages, in the
// form of the source candidates, so that the preferences, error sites and rollouts of a run belong to the same
// example. A message's data other than its text - token ids, log-probs, finish reason - is kept on its node. Keys
// that are not listed here, such as a benchmark's `info` with the ground truth, never reach an example.
//
// Traces of composite trainers are supported too. Their keys are trace_id, turns (each with at most one tool_call; a
// turn of any role may have tool_error, the kind of an error, and error_meta), final_reward, dpo_pairs, and replays
// (several models' answers to one state).
//
// Most formats don't say whether the model really produced an assistant message in this rollout. assume_sampled decides
// in these cases; a message with log-probs was sampled, and one with `weight: 0` or `sampled: false` was not.
package traces
