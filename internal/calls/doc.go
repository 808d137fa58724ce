// Package calls makes graphs from the model calls in stored traces.
//
// A trace is a list of calls, each with all the messages it was given and the one it returned. A Session accepts them
// in any order and stores every message once: histories share a walk as long as they are equal and branch where they
// differ - at a retry, a fork, a compaction, an edited context. A model's message is trained on only where it was
// written; in the history of a later call it is the same node if that call saw it unchanged, and context otherwise.
//
// Two calls with the same history and different answers are a retry: the answer that a later call continues from is the
// one that counts. The others become context and are counted as Abandoned. If no call continues from any of the
// answers, all become context and are counted as Ambiguous, because it is unknown which one the agent used.
//
// The order in which calls are added makes no difference: nodes are numbered by the calls' own order, by time, id and
// content. A session uses memory for its distinct messages and one entry per call.
package calls
