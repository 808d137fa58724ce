// Package engines writes scripts that run a plan's shards on Slurm, Kubernetes or Ray. Users may change the scripts.
// nat-go itself doesn't communicate with these systems.
package engines
