// Package bench measures the kernels on the machine it runs on, against floors measured in the same run: what the core
// can multiply and add, and what the memory can deliver to two streams. Absolute times say little on a shared machine;
// the fractions, taken interleaved, do. torch can be measured beside, eager and the fastest of several forms that
// torch.compile fuses, in a process of its own whose rounds are interleaved with ours and whose allocator keeps its
// memory: by default most of torch's time is page faults.
//
// # Where the time goes
//
// Measured on an AMD Zen 5 with AVX-512, 2 cores, 32 MiB of L3, float32; nanoseconds an entry, one thread.
//
// The forward kernel (0.34 cached, 0.37 from memory) is bound by its 51 vector instructions for 16 entries, not by
// memory (0.19). It runs at 105 to 110 % of the FMA probe, since additions and permutes have units of their own. What
// is left are the two exp2 a side takes (one to sum, one for the larger of the two) and the seven-term polynomial.
// Gradients (0.56, from memory 0.61) need the third pass; their bytes are written past the caches, which is worth 10 %
// against ordinary stores for a row of 32000 and 6 % at 151936.
//
// Prefetching the next row is worth 1.4x on this machine. Into L1 instead of L2 it is the same; into L3 only, 5 %
// slower; without any, reading is bound by latency. On small pages (4 KiB) times from memory are 3 to 6 % longer: the
// translations of the prefetched addresses take their part.
//
// Two threads are 1.8 to 2.0 times as fast, save for KL in one pass, which one thread already reads at 0.8 of what the
// memory gives: two are at its limit (1.4 times).
//
// AVX2 (0.89; general beta 1.10) needs twice the instructions for half the width. Its general table was 32 segments,
// selected by four permutes and three blends a coefficient; 8 wider ones on each side of 0, found by the exponent of
// 1+|D|, take two permutes and a blend and made it 1.5 times as fast. The same table on AVX-512 would fit one register
// a coefficient, but there a lookup already is one instruction.
//
// Not part of the promised API.
package bench
