// Package kinds is the one list of trainer adapters that this build has: configurations are checked against it, runs and the
// commands about jobs open adapters through it.
package kinds
