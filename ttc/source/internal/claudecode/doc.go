// Package claudecode reads the sessions of Claude Code: the files under ~/.claude/projects.
//
// The model's input is taken from the logged requests, if the session has them (api-request lines, since about version
// 2.1.300): they name every message of a request. Older sessions only have the conversation; for them, the input is
// reconstructed from the chain of parents, and the calls say so (rebuilt_history). The chain alone is not enough: each
// block of an answer is a line of its own, and the results of parallel calls are attached to different blocks, so the
// lines of an answer are merged by its id, and results are joined to their calls.
//
// Every agent of a session has examples of its own; a sub-agent's lines are in a file of their own, which is joined to
// its session by the session's id, or, without an agent's id, form chains of their own. Call arguments are stored as
// parsed values, not as the model spelled them.
//
// parseLine is long because it is one switch with a case for each key of a line.
package claudecode
