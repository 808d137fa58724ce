// Package process runs the programs that nat-go starts: plugins, source commands, hint commands, trainers.
//
// A program gets its own session (a plugin only its own process group, see Config.Group), a mark that its children
// inherit, and pipes that are always drained. On Linux the kernel kills the program when this one ends, unless the
// program is meant to survive. When it ends (see Config.Survives) or is killed, its descendants are ended, too: the
// members of its session or group, all processes with its mark in any session, and their children.
//
// A confined program can read neither the memory nor the environment of this one (Config.Confined). On Linux 5.19 and
// later, this is enforced by Landlock; otherwise, by preventing this program from being dumped or debugged. A
// confined program started by root lacks the capability to inspect other processes.
//
// The mark is in the environment and, on Linux, in a resource limit, so a process that has cleared its environment,
// left the session, and lost its parent still has it. A process can deliberately escape by also setting that limit. A
// process that an unconfined program started before the limit was set can escape without setting it (see launch). On
// macOS, the environments of other processes can't be read, and their limits can't be set, so a process that leaves
// the session escapes when its parent has ended. Processes that are found but can't be ended (they belong to another
// user, or hang in the kernel) are reported by Left.
package process
