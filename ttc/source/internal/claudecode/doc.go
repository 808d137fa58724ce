// Package claudecode reads the sessions of Claude Code: the files under ~/.claude/projects.
//
// The model's input is taken from the logged requests, if the session has them (api-request lines, since about
// version 2.1.300): they name every message of a request. Older sessions contain only the conversation. Their input
// is reconstructed from the parent chain, and their calls are marked accordingly (rebuilt_history). The chain alone
// is not sufficient, because each block of an answer is a separate line, and the results of parallel calls are
// attached to different blocks. The lines of an answer are therefore merged by its id, and results are joined to
// their calls.
//
// Each agent in a session has its own examples. If a sub-agent's lines are in a separate file, that file is joined to
// its session by the session's id. Sub-agent lines without an agent's id form separate chains. Call arguments are
// stored as parsed values, not as the model wrote them.
package claudecode
