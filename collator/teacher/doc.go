// Package teacher asks a model what it thinks of given token ids, and makes of the answers what a distillation batch
// needs: the top-k log-probs at each pair position, whether a hint had an effect, how far teacher and student are apart.
//
// # One schema
//
// Servers answer in shapes of their own: vLLM and SGLang are token-aligned (entry i is the distribution that scored token
// i, entry 0 is empty), TRL's vllm-serve is prediction-aligned over the completion. Here everything is prediction-aligned,
// as the batches are: Scores.Top[p] is what the model predicts after token p, of token p+1. Servers give k entries, or k+1
// where the token itself is not among the k best; the extra one never enters the support, it is kept in Scores.Token.
// Support ids are unique, sorted by log-prob; -inf is clamped to Floor; lengths are checked against what was asked.
//
// # One failure, one sequence
//
// A bad answer costs the sequence it was given for, with a reason, and no other: its pairs get missing entries (-1, -inf).
// Only what makes every answer worthless ends the work: a server of another vocabulary, a refused key.
//
// # Repeatable
//
// Answers are stored by the hash of what was asked (server kind, model, vocabulary, k, ids), so that a run that is resumed,
// or repeated, asks nothing twice and has the same bytes even where the server's arithmetic depends on its batches.
//
// Servers are untrusted: sizes are limited, a redirect is followed nowhere, and no error shows a key.
package teacher
