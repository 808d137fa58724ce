// Package engines writes the files that start the shards of a plan on systems for many processes: Slurm, Kubernetes,
// Ray. It writes text to be read and changed; nat-go itself talks to none of them.
package engines
