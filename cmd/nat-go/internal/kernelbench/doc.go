// Package kernelbench measures the kernels on the current machine against floors measured in the same run: the rate
// at which a core can multiply and add, and the rate at which memory can deliver two streams. On a shared machine,
// absolute times mean little, but ratios of interleaved measurements are reliable. Optionally, it also measures
// torch, in the fastest of several forms that torch.compile fuses. Torch runs in its own process, whose rounds are
// interleaved with the kernels', and its allocator is configured to keep memory, because by default torch spends most
// of its time in page faults.
//
// # Analysis
//
// All numbers are for float32 on an AMD Zen 5 (AVX-512, 2 cores, 32 MiB of L3). Times are in ns per entry, for one
// thread. They predate two optimisations described in the README.md of package kernels: AVX-512 keeps the exponentials
// of its first pass, and gradients use a single table of rates.
//
// The forward kernel (0.34 cached, 0.37 from memory) is bound by its 51 vector instructions per 16 entries, not by
// memory (0.19). It runs at 105 to 110 % of the FMA probe's rate, because additions and permutes have their own
// units. The other instructions compute an exp2 per side for the sums, one for the larger of the two, and the
// seven-term polynomial. Gradients (0.56 cached, 0.61 from memory) need a third pass. Their stores bypass the caches,
// which saves 10 % over ordinary stores for rows of 32000 entries, and 6 % for rows of 151936.
//
// Prefetching the next row makes the kernels 1.4 times as fast on that machine. Prefetching into L1 instead of L2
// makes no difference, and prefetching only into L3 is 5 % slower. Without prefetching, reading is bound by latency.
// With small pages (4 KiB), times from memory are 3 to 6 % longer because of the address translations for prefetches.
//
// Two threads are 1.8 to 2.0 times as fast as one. The exception is one-pass KL, where they are only 1.4 times as fast,
// because a single thread already reads at 80 % of the memory's throughput.
//
// AVX2 (0.89; general beta 1.10) takes about three times as many instructions per entry, because its vectors are half
// as wide and a table lookup takes more than one instruction. Its general table has 8 segments on each side of 0, found
// from the exponent of 1+|D|, with two permutes and a blend per coefficient. With 32 narrower segments, selected by
// four permutes and three blends, it was 1.5 times as slow. The same table on AVX-512 would fit in one register per
// coefficient, but there a lookup is already a single instruction.
package kernelbench
