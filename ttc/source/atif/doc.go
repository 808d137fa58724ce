// Package atif reads trajectories in the Agent Trajectory Interchange Format, versions 1.0 to 1.8: Harbor's files of
// one, the lists that NAT writes.
//
// A step of the agent is a call to the model, unless it says that it was none or several. The messages that a call was
// given are the steps before it, which is what the format can say: it has no place for a context that was edited. Steps
// that were copied from elsewhere are context. Sub-trajectories are agents of their own.
//
// Many trajectories lack the system prompt and the tools, have the arguments of calls as parsed values, and the results
// otherwise than the model saw them: their calls say so.
//
// Not part of the promised API.
package atif
