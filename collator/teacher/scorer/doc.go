// Package scorer runs a program of the user's that computes a model's logits, all of the vocabulary, at given positions
// of given token ids. The logits come through memory that both processes share, not through a pipe.
//
// # Protocol
//
// The program is started once and lives as long as it is needed. It reads a JSON object per line on standard input and
// answers each with one on standard output. Descriptor 3 is the shared memory: a file without a name, of a fixed size,
// mapped by both.
//
//	> {"hello": "nat.logits.v1", "memory": 67108864, "probes": ["a text", ...]}
//	< {"vocab": 151936, "dtype": "float32", "model": "a name", "probes": [[1, 2, ...], ...]}
//	> {"id": 1, "sequences": [{"ids": [5, 6, 7], "positions": [1, 2]}, ...]}
//	< {"id": 1, "rows": 2}
//	< {"id": 1, "error": "out of memory"}
//
// For each sequence in order, and each of its positions in order, the program writes one row of vocab logits, of what
// comes after that position, end to end from the beginning of the memory. dtype is float32, bfloat16 or float16, in the
// machine's byte order. The answer follows when the rows are written. Positions may repeat. probes are what the
// program's tokenizer makes of the texts, without special tokens; a program without one leaves them out, and has to be
// believed.
//
// # Trust
//
// The program is not believed: answers have a limit and a deadline; one that dies, hangs, floods or answers something
// else is killed with all it started and, at the next request, started again, until it has failed too often in a row.
// On Linux the memory is sealed: the program can't shrink it under the reader. It may write into it at any time, which
// spoils its own numbers and nothing else. What it read in vain is for the caller to ask again, in smaller parts, or to
// give up.
//
// Not part of the promised API.
package scorer
