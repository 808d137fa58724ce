// Package bench measures the main job, a run from a NAT evaluation's output to a data set, on the user's machine.
//
// It runs the program itself on generated input, in separate processes, including the builders' process and all checks.
// Memory is sampled across the process tree, because the per-process peak that the kernel reports doesn't give the
// total. Figures are comparable only within one run on one machine.
package bench
