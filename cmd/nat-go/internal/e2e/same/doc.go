// Package same checks that changes to the program's structure don't affect the output of runs. It runs a fixed set of
// jobs in all supported ways, and compares hashes of the outputs with a committed file.
package same
