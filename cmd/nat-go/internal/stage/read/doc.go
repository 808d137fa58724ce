// Package read is the stage that finds a run's inputs and reads examples from them. It also divides inputs among
// shards.
package read
