// Package copilot reads the sessions of GitHub's Copilot CLI: an events.jsonl for each, in which every line is an event
// of the agent's loop, in the order in which it happened.
//
// An answer is one event, or several if the program divided it where it thought. Tools run in parallel and report when
// they end, so that results stand in another order than the model was given them, which is the order of the calls.
// Events of a sub-agent have the agent's id. A compaction replaces what was said with its summary.
package copilot
