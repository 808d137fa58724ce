package trainers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/httpclient"
)

// Ask returns an idempotent request, which is sent up to three times while the service is unavailable. ok lists
// statuses other than 2xx that are not errors.
func Ask(op, method, path string, body httpclient.Body, ok ...int) httpclient.Request {
	return httpclient.Request{
		Op: op, Method: method, Path: path, Accept: "application/json", Body: body, OK: ok, Tries: 3, Harmless: true,
	}
}

// Send returns a request that must not be carried out twice. It is sent up to three times while the service is
// unavailable, but not again if the service may have carried it out.
func Send(op, path string, body httpclient.Body) httpclient.Request {
	return httpclient.Request{
		Op: op, Method: http.MethodPost, Path: path, Accept: "application/json", Body: body, Tries: 3,
	}
}

// JSON returns a body that holds a value, which must be one that can be encoded.
func JSON(v any) httpclient.Bytes {
	b, err := httpclient.JSON(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Error describes a failed operation on a trainer.
type Error = httpclient.Error

// Fault classifies the cause of an error, which determines the exit code and whether to retry.
type Fault = httpclient.Fault

// The faults.
const (
	// the service refused the request: exit 1; a retry would get the same response
	Refused = httpclient.Refused
	Denied  = httpclient.Denied // credentials: exit 3
	// the service is unreachable or overloaded, or its response is invalid: exit 3; a retry can help
	Unavailable = httpclient.Unavailable
	Local       = httpclient.Local // the cause is a file, a program or this machine: exit 3
	Gone        = httpclient.Gone  // the service doesn't have the job: exit 1
)

// Errorf returns the error of operation op. fix describes a remedy, and may be empty.
func Errorf(fault Fault, op, fix, why string, args ...any) error {
	return &Error{Op: op, Why: fmt.Sprintf(why, args...), Fix: fix, Fault: fault}
}

// LocalError returns the error of an operation that failed because of this machine. fix describes a remedy, and may be
// empty.
func LocalError(op, fix string, err error) error {
	return &Error{Op: op, Why: err.Error(), Fix: fix, Fault: Local, Err: err}
}

// AsError finds an *Error in err's chain. Such an error is from an adapter or from one of an adapter's requests.
func AsError(err error) (e *Error, ok bool) {
	ok = errors.As(err, &e)
	return e, ok
}

// Transient reports whether a retry can help.
func Transient(err error) bool {
	e, ok := AsError(err)
	return ok && e.Fault == Unavailable
}

// Unsettled reports whether the request that ended in err may have been carried out nevertheless. An error that is not
// an *Error counts as unsettled.
func Unsettled(err error) bool {
	if e, ok := AsError(err); ok {
		return e.Unsettled
	}
	return err != nil
}

// Exit attaches an exit code to an adapter's error, unless it already has one.
func Exit(err error) error {
	code := exit.Failed
	if e, ok := AsError(err); ok && e.Fault != Refused && e.Fault != Gone {
		code = exit.Environment
	} else if !ok && errors.Is(err, context.Canceled) {
		code = exit.Interrupted
	}
	return exit.Default(code, err)
}
