// Package exit attaches the program's exit code to an error.
//
//	0         success
//	1         the run failed: a job failed or was cancelled, nothing was left to train on, the workflow was
//	          interrupted, or the books don't balance
//	2         invalid configuration or usage
//	3         a problem with a plugin, a service, a library, the disk, or another part of the environment
//	4         a shard failed, and would fail again
//	130, 143  the program was ended by a signal
package exit
