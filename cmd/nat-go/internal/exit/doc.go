// Package exit attaches the program's exit code to an error.
//
//	0         success
//	1         the command failed: a collection run or a job failed, the job was cancelled, nothing was left to
//	          train on, an input changed, a check found errors, or the books don't balance
//	2         invalid configuration or usage
//	3         a problem with a plugin, a service, a library, the disk, or another part of the environment
//	4         a shard failed, and would fail again
//	130, 143  the program was ended by a signal
package exit
