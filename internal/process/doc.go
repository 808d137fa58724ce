// Package process runs the programs that nat-go starts: plugins, source commands, hint commands, trainers.
//
// A program gets a session of its own (a plugin: a process group, see Config.Group), a mark in its environment that
// its children inherit, and pipes that are drained whatever it prints. On Linux the kernel kills it when the program
// that started it ends, unless it is to survive. When it ends, or is killed, everything that it started is ended with
// it: the members of its session or group, whatever carries its mark in whatever session, and the children of these.
//
// What can get away is a process that leaves the session, clears its environment and whose parent has ended before
// anybody looks: nothing connects it to the program any more. On macOS other processes' environments are not read, so
// that there a process that leaves the session gets away once its parent has ended. What is found and can't be ended
// (it belongs to another user, or hangs in the kernel) is reported by Left.
package process
