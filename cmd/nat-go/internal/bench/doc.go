// Package bench measures the main job, a run from a NAT evaluation's output to a data set, on the user's machine.
//
// The runs are those of the program itself: processes of their own, the builders' process and all checks included, on
// input that is generated. Memory is sampled over the process tree, as what the kernel says of a process at its end
// (the peak of each) says nothing of their sum. Figures are compared within one run on one machine and never across.
package bench
