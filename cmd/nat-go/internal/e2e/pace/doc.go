// Package pace compares the processor time, peak memory and size of two builds of the program, run alternately on the
// same inputs. It enforces no limits in tests: `make pace OLD=path/to/nat-go` prints its table.
package pace
