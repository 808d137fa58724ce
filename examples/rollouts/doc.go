// Command rollouts writes the rollouts of a small environment, one per line: a library desk, whose agent finds books
// and reserves them. Ten tasks have four rollouts each, in which a simulated user words the request differently. Some
// calls fail, some rollouts don't fulfil the request, and two requests can't be fulfilled.
//
//	go run ./examples/rollouts > examples/rollouts/traces.jsonl
package main
