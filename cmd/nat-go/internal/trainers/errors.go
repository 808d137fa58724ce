package trainers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

// Error is what came of a request to a trainer.
type Error struct {
	Op  string // what was tried: "create the job (POST http://host/v1/customization/jobs)"
	Why string // what came of it: "HTTP 422: config: unknown configuration"
	Fix string // what to do; may be empty

	Fault      Fault
	Status     int           // HTTP status of the answer; 0: there was none
	Unsettled  bool          // the request may have been carried out though no answer says so
	RetryAfter time.Duration // how long the service asks to be left alone; 0: it doesn't say
	Err        error         // the cause, for errors.Is; may be nil
}

// Fault says whose fault an error is, which decides whether to try again and the exit code.
type Fault uint8

// The faults.
const (
	Refused     Fault = iota // the service understood and said no: exit 1; the same again gives the same
	Denied                   // credentials: exit 3
	Unavailable              // not reached, overloaded, broken answer: exit 3; trying again can help
	Local                    // a file, a program, this machine: exit 3
	Gone                     // the service doesn't know the job: exit 1
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

// Transient says whether trying again can help.
func Transient(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Fault == Unavailable
}

// Unsettled says whether a request may have been carried out though it ended in this error. An error that is no *Error
// says nothing, and so may hide anything.
func Unsettled(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Unsettled
	}
	return err != nil
}

// Exit gives an adapter's error the exit code of the run it ends.
func Exit(err error) error {
	var coded *exit.Error
	var e *Error
	switch {
	case err == nil, errors.As(err, &coded):
		return err
	case errors.As(err, &e) && (e.Fault == Refused || e.Fault == Gone):
		return exit.With(exit.Failed, err)
	case errors.As(err, &e):
		return exit.With(exit.Environment, err)
	case errors.Is(err, context.Canceled):
		return exit.With(exit.Interrupted, err)
	default:
		return exit.With(exit.Failed, err)
	}
}
