// Package pace compares the processor time, the peak memory and the size of two builds of the program, in turns on the
// same inputs. It judges nothing in tests: `make pace OLD=path/to/nat-go` prints its table.
package pace
