// Package pace compares the processor time, peak memory and size of two builds of the program, which it runs
// alternately on the same inputs. It prints a table and enforces no limits.
// `make pace OLD=path/to/nat-go` runs it.
package pace
