package httpclient

import (
	"fmt"
	"time"
)

// Error is what came of a request that got no answer of use.
type Error struct {
	Op  string // what was tried: "create the job (POST http://host/v1/customization/jobs)"
	Why string // what came of it: "HTTP 422: config: unknown configuration"
	Fix string // what to do; may be empty

	Fault      Fault
	Status     int           // HTTP status of the answer; 0: there was none
	Unsettled  bool          // the request may have been carried out though no answer says so
	RetryAfter time.Duration // how long the service asks to be left alone; 0: it doesn't say
	Err        error         // the cause, for errors.Is; may be nil, and may hold secrets
}

// Fault says whose fault an error is, which decides whether to try again.
type Fault uint8

// The faults.
const (
	Refused     Fault = iota // the service understood and said no: the same again gives the same
	Denied                   // credentials
	Unavailable              // not reached, overloaded, broken answer: trying again can help
	Local                    // a file, a certificate, an address in the config, this machine
	Gone                     // the service doesn't know what was asked for
)

func (e *Error) Error() string {
	s := fmt.Sprintf("can't %s: %s", e.Op, e.Why)
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
