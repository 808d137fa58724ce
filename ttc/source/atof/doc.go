// Package atof reads the events of NeMo Relay, in the Agent Trajectory Observability Format: JSON lines, two for each
// scope - a call to a model, a tool, an agent - and one for each mark.
//
// A call is the request that its scope began with and the response that it ended with, in the shape of the API that was
// called; where the response is in no shape that is known, it is what Relay's own annotation says. A scope of an agent
// within another is a sub-agent. Tools that ended in an error fail the results they gave.
//
// Relay sorts the keys of everything it writes, so definitions of tools have theirs in another order than was sent. The
// end of a stream names another root than its beginning: ends are found by the id of their scope.
//
// Not part of the promised API.
package atof
