// Package bench measures, on the user's machine, a run that turns a NAT evaluation's output into a data set, which is
// the main use of nat-go.
//
// It runs the program itself on generated input, in separate processes, including the builders' process and all
// checks. Memory is sampled across the process tree, because the kernel reports only per-process peaks. Figures are
// comparable only within one run on one machine.
package bench
