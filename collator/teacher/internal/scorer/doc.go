// Package scorer runs a user's program that computes a model's logits, over the whole vocabulary, at given positions of
// given token ids. The logits come through memory shared by both processes, not through a pipe.
//
// # Protocol
//
// The program is started once and runs until it is no longer needed. It reads one JSON object per line on standard
// input and answers each with one on standard output. Descriptor 3 is the shared memory: an unnamed file of a fixed
// size, which the program maps or writes to.
//
//	> {"hello": "nat.logits.v1", "memory": 67108864, "probes": ["a text", ...]}
//	< {"vocab": 151936, "dtype": "float32", "model": "a name", "probes": [[1, 2, ...], ...]}
//	> {"id": 1, "sequences": [{"ids": [5, 6, 7], "positions": [1, 2]}, ...]}
//	< {"id": 1, "rows": 2}
//	< {"id": 1, "error": "out of memory"}
//
// For each sequence in order, and each of its positions in order, the program writes one row of vocab logits, for the
// token after that position, contiguously from the beginning of the memory. dtype is float32, bfloat16 or float16, in
// the machine's byte order. The response follows once the rows are written. Positions may repeat. probes are the
// program's token ids for each probe string, without special tokens; a program without a tokenizer omits them, and
// its vocabulary must then be trusted.
//
// # Trust
//
// The program is not trusted: responses have a size limit and a deadline; a program that exits, hangs, sends too much
// output or sends an invalid response is killed together with its child processes, and restarted for the next
// request, unless too many failures have occurred in a row. On Linux the memory is sealed, so the program can't
// shrink it under the reader. The program can write to it at any time, but this affects only its own results. If a
// request fails, the caller may repeat it in smaller parts or give up.
package scorer
