// Package teacher asks a model what it thinks of given token ids, and makes of the answers what a distillation batch
// needs: the top-k log-probs at each pair position, whether a hint had an effect, how far teacher and student are
// apart.
//
// # One schema
//
// Servers answer in shapes of their own: vLLM and SGLang are token-aligned (entry i is the distribution that scored
// token i, entry 0 is empty), TRL's vllm-serve is prediction-aligned over the completion. Here everything is
// prediction-aligned, as the batches are: Scores.Top[p] is what the model predicts after token p, of token p+1. Servers
// give k entries, or k+1 where the token itself is not among the k best; the extra one never enters the support, it is
// kept in Scores.Token. Support ids are unique, sorted by log-prob; -inf is clamped to Floor; lengths are checked
// against what was asked.
//
// The shapes are those of the servers' own sources; what each of them does with the first position, the k+1st entry and
// -inf stands beside its reader, in protocol.go. Answers are raw log-probs, at temperature 1.
//
// # One failure, one sequence
//
// A bad answer costs the sequence it was given for, with a reason, and no other: its pairs get missing entries (-1,
// -inf). Only what makes every answer worthless ends the work: a server of another vocabulary, a refused key, a path it
// doesn't have.
//
// # Sites fall out, they don't vanish
//
// Work asks for columns, tries hints out, and weighs by dumped logits, a batch at a time. A hint is tried out on the
// student's row with that one hint alone - whatever else the teacher's row has - and beside a neutral one, which the
// collator has put in the same place in the same words of the template: a teacher that is only disturbed by more text
// would pass otherwise. What falls out - an answer that can't be used, a hint without effect or with the wrong one, too
// little divergence - weighs nothing (pair_weight 0, the weights there were in pair_base_weight) and is told of once,
// with the first reason; the rows stay, since other sites share them and the files are verified as they were made.
//
// # Repeatable
//
// Answers are stored by the hash of what was asked (server kind, model, vocabulary, k, ids), so that a run that is
// resumed, or repeated, asks nothing twice and has the same bytes even where the server's arithmetic depends on its
// batches.
//
// Servers are untrusted: sizes are limited, a redirect is followed nowhere, and no error shows a key.
//
// Not part of the promised API.
package teacher
