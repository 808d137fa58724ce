// Package copilot reads the sessions of GitHub's Copilot CLI. Each session is an events.jsonl in which every line is an
// event in the agent's loop, in chronological order.
//
// An answer is one event, or several if the program split it at its reasoning. Tools run in parallel, and their results
// are recorded in the order in which they end; the model sees the results in call order. A sub-agent's events carry the
// agent's id. A compaction replaces the conversation with a summary.
package copilot
