// Package exit attaches the program's exit code to an error.
//
//	0 done; 1 the run failed (job failed or cancelled, no data, interrupted workflow, unbalanced books);
//	2 config or usage; 3 environment (plugin, service, library, disk); 4 a shard that would fail
//	again; 130 and 143 a signal.
package exit
