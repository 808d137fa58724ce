// Package host runs trajectory-builder plugins and never trusts them.
//
// Start starts n copies of a plugin's process. Open opens a Session with one of its builders: groups go in, and
// results come out in the same order for any n. go-plugin handles the handshake and the connection. All code that
// handles the process is in this package (program.go), because a plugin can make go-plugin's own implementation
// crash, block or leak.
//
// The host handles a misbehaving plugin as follows:
//
//   - It crashes, hangs, trickles, breaks the protocol, or exceeds its memory limit: it is killed with everything it
//     started, and restarted after a pause that doubles with each consecutive failure (supervisor.go, clock.go).
//   - The groups it was working on are sent again, one at a time. The one that makes it fail again is dropped as
//     poison, and the others go through (worker.go). If the process may have been killed from outside, a group is
//     blamed only when this has happened three times while the process was working on it alone; a process that a user
//     has stopped is sent SIGCONT.
//   - It fails ten times without finishing a group in between: the run ends with an error that includes the plugin's
//     last lines of output.
//   - It answers wrongly: a record that refers to messages outside its group, contains a string that isn't UTF-8 or a
//     value that isn't JSON, or has a kind the builder did not declare, is dropped and counted (check.go).
//
// Every wait has a deadline, every buffer a limit, and every process, socket and folder is cleaned up, even after a
// kill -9 of the host: the kernel kills the plugin (Linux) or the plugin notices (elsewhere), and the next start
// sweeps leftovers (rundir.go). A goroutine with exclusive use of an instance never waits for results to be consumed,
// and a goroutine that waits for that holds no resource that others need (gate.go).
//
// A plugin sees all data of its groups and runs as the same user. The host prevents it from harming a run by
// accident, but is not a sandbox.
package host
