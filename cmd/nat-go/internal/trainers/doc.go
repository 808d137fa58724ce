// Package trainers defines the contract of a trainer adapter: it hands a committed data set to a trainer, and reports
// on the job.
//
// An adapter is only a client. It keeps no state of its own: everything it needs later is in the JobRef returned by
// Submit, which is written to job.json in the run folder, so that another process, on another machine, can continue
// from it. Waiting, back-off, time limits, the journal and signals are the same for every adapter and live in package
// jobs; an adapter makes one attempt and reports the outcome in an *Error: whether a retry can help, and whether a
// request may have been carried out although its answer was lost.
//
// Each adapter is a sub-package with a Factory: its `_type`, its config struct, the row format it reads, and how to
// open it.
//
// States are NAT's: pending, running, completed, failed, canceled (one l). Progress is never a verdict: services report
// 100 for minutes before they complete, and may fail at 100.
package trainers
