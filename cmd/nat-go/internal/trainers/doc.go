// Package trainers defines the contract of a trainer adapter: it hands a committed data set to a trainer, and reports
// on the job.
//
// An adapter is only a client. It keeps no state outside the run folder: what identifies the job is in the JobRef
// returned by Submit, which is written to job.json there, so that another process can continue from it, with a service
// also on another machine. Waiting, back-off, time limits, the journal and signals are the same for every adapter and
// live in package jobs. An adapter reports a failure in an *Error: whether a retry can help, and whether a request may
// have been carried out although its answer was lost.
//
// Each adapter is a sub-package with a Factory, which has its `_type`, its config struct, the row format it reads, and
// a function that opens it.
//
// States are NAT's: pending, running, completed, failed, canceled (one l). Progress is never a verdict: services report
// 100 for minutes before they complete, and may fail at 100.
package trainers
