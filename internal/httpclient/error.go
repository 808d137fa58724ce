package httpclient

import (
	"fmt"
	"time"
)

// Error explains why a request has no useful response.
type Error struct {
	Op  string // the attempted action: "create the job (POST http://host/v1/customization/jobs)"
	Why string // the cause: "HTTP 422: config: unknown configuration"
	Fix string // the remedy; may be empty

	Fault      Fault
	Status     int           // HTTP status of the response; 0 if there was none
	Unsettled  bool          // the request may have been carried out even though no response confirms it
	RetryAfter time.Duration // delay requested by the service; 0 if unspecified
	Err        error         // the cause, for errors.Is; may be nil, and may contain secrets
}

// Fault classifies the cause of an error, which determines whether to retry.
type Fault uint8

// The faults.
const (
	Refused     Fault = iota // the service understood and refused the request; a retry would get the same response
	Denied                   // the credentials are missing, wrong or insufficient
	Unavailable              // the service is unreachable or overloaded, or its response is broken; a retry can help
	Local                    // the problem is a file, a certificate, an address in the config, or this machine
	Gone                     // the requested object doesn't exist
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
