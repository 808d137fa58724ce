// Package teacher asks a model for the likelihood of given token ids, and derives the inputs of a distillation batch:
// the top-k log-probs at each pair position, whether a hint had an effect, and how far teacher and student differ.
//
// # One schema
//
// Every server has its own response format: vLLM and SGLang are token-aligned (entry i is the distribution that scored
// token i, entry 0 is empty), and TRL's vllm-serve is prediction-aligned over the completion. Here everything is
// prediction-aligned, like the batches: Scores.Top[p] is the model's prediction after token p, for token p+1. Servers
// return k entries, or k+1 if the actual token is not among the k best; the extra one is kept in Scores.Token, but not
// in Scores.Top. Support ids are unique and sorted by log-prob; -inf is clamped to floor; lengths are checked against
// the request.
//
// The formats follow the servers' own sources. The readers in protocol.go describe how each server treats the first
// position, the k+1st entry and -inf. Answers are raw log-probs, at temperature 1.
//
// # A failure costs one sequence
//
// An unusable answer affects only its own sequence: the sequence's pairs get missing entries (-1, -inf), and the
// reason is recorded. Work stops only if every answer would be unusable because of a different vocabulary, a rejected
// key or a missing path.
//
// # Dropped sites are reported
//
// Work handles one batch at a time: it requests the columns, measures the hints, and sets weights from full logits. A
// hint is measured on the student's row with that single hint, even if the teacher's row has others, and compared
// with a neutral one, which the collator has put in the same position with the same template text. Otherwise, a
// teacher that merely reacts to additional text would pass. A site is dropped if its answer is unusable, its hint has
// no effect or the wrong one, or its divergence is too small. A dropped site gets no weight (pair_weight is 0, and
// pair_base_weight has the original weights) and is reported once, with the first reason. The rows remain, because
// other sites share them, and because the files are verified as they were written.
//
// # Repeatable
//
// Answers are stored under the hash of the request (server kind, model, vocabulary, k, ids), so a resumed or repeated
// run does not repeat requests, and produces the same bytes even if the server's results depend on how it batches
// requests.
//
// Servers are untrusted: sizes are limited, redirects are not followed, and errors never contain a key.
//
// Each part of a protocol (request, sequence, scores, outcome) has its own exported type.
package teacher
