// Package bench measures the kernels on the machine it runs on, against floors measured in the same run: what the core
// can multiply and add, and what the memory can deliver to two streams. Absolute times say little on a shared machine;
// the fractions, taken interleaved, do.
package bench
