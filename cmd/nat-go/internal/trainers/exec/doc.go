// Package exec is the trainer adapter that starts a local program: a TRL script, NeMo RL, verl, a trainer of one's own.
//
// The program outlives nat-go: it runs in a process group of its own, writes its output to a file in the run folder,
// and a shell of three lines notes its exit status. So one can leave a training run and come back to it, from another
// process, as with a service.
//
//	<run>/trainer/submission.json   whose submission it is, on which host, and which lock is its
//	<run>/trainer/output.log        what the program prints
//	<run>/trainer/pid               process group
//	<run>/trainer/exit              exit status, once it has ended
//	<run>/trainer/lock              held as long as a process of the group lives
//
// Whether the program lives is told by the lock, which its processes inherit, never by the number of a process, which
// the system gives to others. A moved folder keeps the lock. A copy, or the folder on another machine, has one that
// nobody holds: there a program without an exit status is not called dead, but unseen.
//
// Progress is read from what the program prints: lines that are JSON objects or Python's print of a dict (as Hugging
// Face trainers write), key=value lines, and the "12/340 [" of a progress bar. Keys: step, total_steps (max_steps),
// epoch, loss, eval_loss, progress (0..100). Nothing it prints is a verdict: only the exit status is.
//
// The program gets a small environment: PATH, HOME and the like, what env grants of nat-go's own, what set adds. It
// runs as the same user and can read what the user can.
package exec
