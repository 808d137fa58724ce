// Package property checks properties in tests, with the seed in NATGO_SEED: 1 by default, so that two runs of a commit
// agree; 0 means a new seed for each run. It is only for this module's tests.
package property
