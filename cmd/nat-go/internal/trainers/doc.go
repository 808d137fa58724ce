// Package trainers defines the contract for a trainer adapter, which hands a committed data set to a trainer and
// reports on the job.
//
// An adapter is a client that keeps no state outside the run folder. The JobRef returned by Submit identifies the job
// and is written to job.json there, so that another process can continue from it. If the trainer is a service, that
// process may be on another machine. Waiting, backoff, time limits, the journal and signals are the same for every
// adapter and live in package jobs. An adapter reports a failure as an *httpclient.Error, which indicates whether a
// retry can help, and whether a request may have been carried out although its response was lost.
//
// Each adapter is a sub-package with a Factory, which contains its `_type`, its config struct, the row format it reads,
// and a function that opens it.
//
// States are NAT's: pending, running, completed, failed, canceled (one l). Progress never determines the state, because
// services report 100 for minutes before they complete, and may fail at 100.
package trainers
