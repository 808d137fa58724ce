// Package customizertest is a NeMo Customizer service that keeps everything in memory, for tests: entity store, data
// store with its Hugging Face interface and LFS, jobs and deployments, on loopback. Answers have the shapes of the real
// ones, nulls and omissions included. Fault stands in for everything that goes wrong between.
package customizertest
