// Package atif reads trajectories in the Agent Trajectory Interchange Format, versions 1.0 to 1.8: Harbor's files with
// one trajectory each, and the lists that NAT writes.
//
// An agent's step is a model call, unless it states that it made zero or several calls. A call's input consists of
// the steps before it, because the format can't express an edited context. Steps copied from elsewhere are context.
// Sub-trajectories are separate agents.
//
// Many trajectories lack the system prompt and the tools, hold call arguments as parsed values, or contain
// results in a different form than the model saw. Their calls are marked accordingly.
package atif
