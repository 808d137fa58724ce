// Command rollouts writes the rollouts of a small environment, one per line: a library desk, whose agent finds books
// and reserves them. Ten tasks have four rollouts each; a simulated user words each differently. Some calls fail, some
// rollouts don't fulfil the request, and for two tasks none does.
//
//	go run ./examples/rollouts > examples/rollouts/traces.jsonl
package main
