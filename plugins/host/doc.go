// Package host runs trajectory-builder plugins and never trusts them.
//
// Start starts n copies of a plugin's process; Open makes a Session of one of its builders: groups in, results out, in the
// order of the groups whatever n is. go-plugin does the handshake and the connection; everything that touches the process is
// our own (process.go), because go-plugin's stock path can be crashed, blocked for ever and made to leak by the plugin.
//
// What the host does about a plugin that misbehaves:
//
//   - It crashes, hangs, breaks the protocol, or goes over its memory: the process group is killed and started again, after
//     a pause that doubles with each failure in a row (supervisor.go).
//   - The groups it had in hand are sent again, once. If it fails again, they are sent apart until the one that does it is
//     found; that one is dropped as poison and the others go through (worker.go).
//   - It fails ten times without finishing a group in between: the run ends with an error that has the plugin's last lines.
//   - It answers wrongly: a record that refers to what its group does not have, or of a kind the builder did not declare, is
//     dropped and counted (check.go).
//
// Every wait has a deadline, every buffer a limit, and every process, socket and folder an end, also after a kill -9 of the
// host: the kernel kills the plugin (Linux) or the plugin notices (elsewhere), and the next start sweeps what is left.
//
// A plugin sees all the data of its groups and runs as the same user. The host keeps it from harming a run by mistake; it is
// no sandbox.
//
// Not part of the promised API.
package host
