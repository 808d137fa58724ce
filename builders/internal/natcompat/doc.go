// Package natcompat reproduces NAT's preference-pair algorithm exactly, for runs with `--compat nat`: the same pairs in
// the same order from the same steps, including NAT's undocumented behaviour. It works on the raw steps of a whole
// collection run and shares only the configuration with the builder for a clean data set (package dpo).
//
// The package reproduces the following behaviour of NAT: ids are Python dict keys, so 2 and 2.0 are the same item, of
// which the last wins, but 1 and "1" are different items; turns are keyed "<id>::<turn>", so two examples can share a
// turn; outputs that aren't text are converted with Python's str(), and messages containing anything but text become
// a repr; ties, NaN and identical outputs form pairs; scores are sorted by CPython's sort, whose order among NaNs
// depends on its merges (sort.go). The reference is nvidia-nat-nemo-customizer 1.9.0 under CPython 3.11; 1.4.3
// behaves the same.
package natcompat
