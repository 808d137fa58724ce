// Package copilot reads the sessions of GitHub's Copilot CLI: an events.jsonl for each, in which every line is an event
// of the agent's loop, in the order in which it happened.
//
// An answer is one event, or several if the program split it at its reasoning. Tools run in parallel and report when
// they end, so results are recorded in a different order than the model sees, which is the order of the calls. A
// sub-agent's events carry the agent's id. A compaction replaces the conversation with a summary.
package copilot
