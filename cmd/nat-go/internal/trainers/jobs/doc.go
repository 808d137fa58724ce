// Package jobs manages a run's job. It submits the job once, waits for it, and cancels it. It needs only the run
// folder, and works with any adapter.
//
// The state of a job is in job.json, which is replaced as a whole each time (temporary file, fsync, rename). Before
// an adapter is asked to submit, the intent is recorded there with its key; afterwards, the reference is recorded. A
// process that dies in between leaves an intent without a reference, and the next process asks the service for the
// job with that key (trainers.Finder) before submitting again. This ensures that a run never gets two jobs, and that
// no job is lost. If a request ends without a response, the same process asks immediately. A lock prevents two
// processes from submitting a run at the same time.
//
// Waiting is a state machine without a clock or a connection (machine.go). Its input is a status or an error, and its
// output is the next action. Errors and progress don't determine whether a job has ended. Failed requests lead to
// backoff and, after a number of them in a row, to an error that says the job may still be running. Rejected
// credentials end the wait immediately.
package jobs
