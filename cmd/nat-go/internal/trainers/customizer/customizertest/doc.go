// Package customizertest is an in-memory NeMo Customizer service for tests, with an entity store, a data store with its
// Hugging Face interface and LFS, jobs and deployments, on the loopback interface. Responses have the same shapes as
// the real service's, including nulls and omissions. Service.Fault lets a test make any request fail.
package customizertest
