// Package bench measures the main job, a run from a NAT evaluation's output to a data set, on the user's machine.
//
// It runs the program itself on generated input, in separate processes, including the builders' process and all checks.
// Memory is sampled over the process tree, because the peak that the kernel reports at a process's end says nothing
// about the sum. Figures are compared within one run on one machine and never across.
package bench
