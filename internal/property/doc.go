// Package property checks properties in tests, with the seed in NATGO_SEED. The default is 1, so that all runs of a
// commit draw the same values; 0 means a new seed for each run. It is only for this module's tests.
package property
