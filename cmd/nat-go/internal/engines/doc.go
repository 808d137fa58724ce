// Package engines writes what starts the shards of a plan where people run many processes: Slurm, Kubernetes, Ray. What
// it writes is text to read and to change; nat-go itself talks to none of them.
//
// Not part of the promised API.
package engines
