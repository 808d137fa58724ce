// Package calls makes graphs of the calls to a model that stored traces hold.
//
// A trace is a list of calls, each with all the messages it was given and the one that came back. A Session takes them
// in any order and holds every message once: histories share a walk as long as they are equal, and part where they are
// not - at a retry, a fork, a compaction, an edited context. What a model wrote is trained in the one place where it
// was written; where it stands in the history of a later call, it is the same node if that call saw it unchanged, and
// context if it did not.
//
// Two calls with the same history and different answers are a retry: the answer that a later call goes on from is the
// one that counts. The others are context and are counted (Abandoned), and where no call goes on from any of them, all
// are (Ambiguous): nothing says which the agent meant.
//
// The order in which calls were added leaves no mark: nodes are numbered by the calls' own order, which is that of
// their times, ids and contents. A session takes memory for its distinct messages and for one entry a call.
//
// Not part of the promised API.
package calls
