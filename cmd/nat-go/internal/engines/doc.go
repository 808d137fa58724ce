// Package engines writes scripts that run a plan's shards on Slurm, Kubernetes or Ray. Users may change them; nat-go
// itself doesn't talk to these systems.
package engines
