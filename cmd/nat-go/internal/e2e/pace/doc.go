// Package pace compares the processor time, peak memory and size of two builds of the program, which it runs
// alternately on the same inputs. It enforces no limits: `make pace OLD=path/to/nat-go` prints a table.
package pace
