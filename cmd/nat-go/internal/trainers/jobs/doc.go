// Package jobs manages the job of a run, from the run folder alone and with any adapter: it submits the job once, waits
// for it, and cancels it.
//
// The state of a job is in job.json, replaced as a whole each time (temporary file, fsync, rename). Before an adapter
// is asked to submit, the intent is recorded there with its key; afterwards the reference. A process that dies in
// between leaves an intent without a reference, and the next process asks the service for the job with that key
// (trainers.Finder) before submitting again: a run never gets two jobs, and none is lost. The same is done at once if a
// request ends without an answer. A lock keeps two processes from submitting one run at the same time.
//
// Waiting is a state machine without a clock or a connection (machine.go): its input is a status or an error, its
// output the next action. Its rules: neither an error nor progress is a verdict on the job; failed requests lead to
// back-off and, after a number in a row, to an error that says the job may still be running; rejected credentials end
// the wait at once.
package jobs
