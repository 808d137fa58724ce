// Package sdpo finds failed tool calls in agent traces and, for each, a hint that would have prevented the failure.
// These are the error sites of hint distillation (SDPO). From a site, the collator builds two rows: a student row with
// the rollout unchanged, and a teacher row with the same tokens plus the hint.
//
// # Sites
//
// A call failed if the source or the result says so (package evidence; the README lists the rules), or if the call
// itself is invalid (arguments that are not JSON, a tool that doesn't exist, a schema violation). A result belongs to
// the nearest preceding call with its id. Because a false error site would silently train a model not to make a
// correct call, evidence is weighed by its position and its share of the result, never by the tool's name. Timeouts,
// 429 and 5xx are not the fault of the call and don't count. A failure that is repeated verbatim counts once.
//
// With `sites: divergence`, a site is the action at which a scored rollout diverges from better ones for its task,
// judging by their writes. The README describes the search.
//
// # Hints
//
// Hint sources are asked in order and the first answer wins: the user's rules, the tool's schema, the environment's own
// feedback, a sibling's action at the same prompt, the user's own program. A hint is knowable (schema, tool list,
// format, policy, anything in the context) or hindsight (known only from the environment or another rollout). Both are
// used by default, and each is labelled and counted. Training on hindsight teaches the model to guess facts that it
// could not have known, so a setting can exclude it. A hint that repeats a run of the target's words is rejected,
// because the teacher would copy it.
//
// The builder is pure, because the answers from a user's program are stored in a file under the hash of the question,
// and a stored question is never asked again.
//
// # Other records from a site
//
// A repair pair prefers the later, successful turn to the failed turn, with the failed turn's prompt. The chosen turn
// was sampled after the error was seen, so these pairs are marked off-policy. A demonstration trains the successful
// turn in its original position.
//
// Part of the supported Go API (v0).
package sdpo
