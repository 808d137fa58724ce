// Package bench measures the main job, a run from a NAT evaluation's output to a data set, on the user's machine.
//
// The runs are those of the program itself: separate processes, including the builders' process and all checks, on
// generated input. Memory is sampled over the process tree, because what the kernel reports at a process's end (its own
// peak) says nothing about the sum. Figures are compared within one run on one machine and never across.
package bench
