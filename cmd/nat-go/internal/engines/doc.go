// Package engines writes what starts the shards of a plan where people run many processes: Slurm, Kubernetes, Ray. It
// writes text to be read and changed; nat-go itself talks to none of them.
package engines
