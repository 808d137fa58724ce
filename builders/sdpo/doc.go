// Package sdpo finds failed tool calls in agent traces and, for each, a hint that would have prevented it: the error
// sites of hint distillation (SDPO). From a site the collator makes a student row, the rollout as it was, and a teacher
// row, the same tokens with the hint spliced in.
//
// # What is a site
//
// A call fails when the source says so, when its result does (package evidence; the README lists the rules), or when
// the call itself is wrong (arguments that are no JSON, a tool that is not there, a breach of the tool's schema). A
// result belongs to the nearest preceding call with its id. An error site that is none trains a model away from a good
// call, silently; so an error counts by where it stands and by how much of the result it is, and never by the tool's
// name. Timeouts, 429 and 5xx say nothing about the call, and a failure that is repeated word for word counts once.
//
// # What is a hint
//
// Sources are asked in order and the first that answers wins: rules of the user's, the tool's schema, the environment's
// own feedback, what a sibling did at the same prompt, a program of the user's. A hint is knowable (schema, tool list,
// format, policy) or hindsight (what only the environment or another rollout tells); by default only the first is
// allowed, since the second teaches guessing. A hint that repeats a run of the target's words is refused: such a
// teacher copies.
//
// The builder is pure: what a program of the user's answers is kept in a file by the hash of the question, and what is
// there is never asked again.
//
// # What else a site gives
//
// repair_pairs: the failed turn against the later turn that made it good, at the prompt of the failed one. The chosen
// turn was sampled after the error was seen, so the pair is marked off-policy. demonstrations: that turn where it
// stands.
//
// Not part of the promised API.
package sdpo
