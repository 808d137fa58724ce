// Package exec is the trainer adapter that starts a local program, such as a TRL script, NeMo RL, verl, or the user's
// own trainer.
//
// The program may run longer than nat-go. It runs in its own process group and writes its output to a file in the run
// folder, and a short shell script records its exit status. A user can therefore detach from a training run and
// return to it from another process, as with a service.
//
//	<run>/trainer/submission.json   the submission, its host and its lock
//	<run>/trainer/output.log        the program's output
//	<run>/trainer/pid               id of the process group
//	<run>/trainer/exit              exit status, once the program has ended
//	<run>/trainer/lock              locked while any of the job's processes is alive
//	<run>/trainer/began             created immediately before the program starts
//	<run>/trainer/cancelled         created when nat-go cancels the job
//
// The lock, which the job's processes inherit, shows whether the program is alive. A process id can't, because the
// system reuses it. Moving the folder doesn't release the lock. In a copy, or on another machine, the lock is free, so
// the state of a program without an exit status is unknown there.
//
// Progress is read from the program's output: lines that are JSON objects or printed Python dicts (as written by
// Hugging Face trainers), key=value lines, and the "12/340 [" in a progress bar. Keys are step, total_steps
// (max_steps), epoch, loss, eval_loss and progress (0..100), and a few synonyms. Only the exit status, not the
// output, determines whether the job succeeded.
//
// The program gets a small environment: PATH, HOME and similar variables, nat-go's own variables that env grants, and
// the variables in set. It runs as the same user, with the same access.
package exec
