// Package property checks properties in tests, with the seed in NATGO_SEED: 1 by default, so that two runs of a commit
// agree, or a new one for each run if it is 0. It is only for this module's tests.
package property
