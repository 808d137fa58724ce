// Package property checks properties in tests, from a seed that NATGO_SEED gives: 1 without it, so that two runs of a
// commit give the same answer, and a new one each time if it is 0. It is for this module's tests and not promised to
// others.
package property
