// Package jobs keeps the job of a run: submits it once, waits for it, cancels it, from the run folder alone, with any
// adapter.
//
// What is known of a job is in job.json, replaced as a whole each time (temporary file, fsync, rename). Before an
// adapter is asked to submit, the intent is written there with its key; afterwards the reference. A process that dies
// between the two leaves an intent without a reference, and whoever comes next asks the service for the job of that key
// (trainers.Finder) before submitting again: no second job for one run, and no lost one. The same is done at once where
// a request ends without an answer. A lock keeps two processes from submitting one run at the same time.
//
// Waiting is a state machine without clock or connection (machine.go): a status or an error goes in, what to do next
// comes out. Its rules: an error is no verdict on the job, and neither is progress; transient errors back off and end,
// after a number in a row, in an error that says the job may still be running; credentials that are refused end it at
// once.
package jobs
