// Package calls makes graphs from the model calls in stored traces.
//
// A trace is a list of calls, each with its input messages and the message that it returned. A Session accepts calls
// in any order and stores every message once. Histories share a walk while they are equal, and branch where they
// differ: at a retry, a fork, a compaction or an edited context. A model's message is trained on only where it was
// written. In the history of a later call, it is the same node if that call saw it unchanged, and context otherwise.
//
// Two calls with the same history and different answers are a retry. The answer from which a later call continues is
// trained on. The others become context and are counted as Abandoned. If no call continues from any of the answers,
// all become context and are counted as Ambiguous, because it is unknown which one the agent used.
//
// The order in which calls are added does not matter, because nodes are numbered in the order of the calls' time, id
// and content. A session stores its distinct messages, and one entry per call.
package calls
