// Package atof reads the events of NeMo Relay, in the Agent Trajectory Observability Format: JSON lines, two for each
// scope - a model call, a tool, an agent - and one for each mark.
//
// A call consists of the request recorded when its scope began and the response recorded when it ended, in the format
// of the API that was called; if the response's format is unknown, Relay's own annotation is used. An agent's scope
// inside another agent's scope is a sub-agent. A tool that ended in an error marks its result as failed.
//
// Relay sorts the keys of everything it writes, so the keys in tool definitions are in a different order than in the
// request. The event that ends a streamed call names a different root than the event that begins it, so ends are
// matched by their scope's id.
package atof
