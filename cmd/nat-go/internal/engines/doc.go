// Package engines writes scripts that run the shards of a plan on Slurm, Kubernetes or Ray. Users may change them;
// nat-go itself doesn't talk to these systems.
package engines
