// Package traces reads whole agent runs in the OpenAI chat format: JSON lines or one array, an entry a rollout.
//
// An entry is an object with its messages and, where it has them, tools, reward, task, trial and model; the keys can be
// named. Scored answers that were considered at single turns may stand beside the messages, as the source candidates
// has them: then preferences, error sites and rollouts of one run are of the same example. What a message carries
// beside its text - token ids, log-probs, finish reason - is kept on its node. Keys that are not named here (a
// benchmark's `info`, say, with the ground truth) never reach an example.
//
// Traces of composite trainers are read, too: trace_id, turns (a tool_call each; tool_error, the kind of an error at a
// turn, whoever speaks in it, and error_meta), final_reward, dpo_pairs, and replays (what
// several models answered to one state).
//
// Whether the model really produced an assistant message in this rollout, most formats don't say. assume_sampled
// decides for those that don't; a message that carries log-probs was sampled, and one with `weight: 0` or `sampled:
// false` was not.
//
// Not part of the promised API.
package traces
