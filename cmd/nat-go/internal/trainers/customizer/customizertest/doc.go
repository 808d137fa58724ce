// Package customizertest is a NeMo Customizer service that keeps everything in memory, for tests: entity store, data
// store with its Hugging Face interface and LFS, jobs and deployments, on the loopback interface. Answers have the
// shapes of the real ones, including nulls and omissions. Service.Fault lets a test make any request fail.
package customizertest
