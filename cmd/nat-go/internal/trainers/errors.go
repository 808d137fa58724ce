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

// JSON returns a body with v encoded as JSON. It must be possible to encode v.
func JSON(v any) httpclient.Bytes {
	b, err := httpclient.JSON(v)
	if err != nil {
		panic(err)
	}
	return b
}

// Errorf returns the error of operation op. fix describes a remedy, and may be empty.
func Errorf(fault httpclient.Fault, op, fix, why string, args ...any) error {
	return &httpclient.Error{Op: op, Why: fmt.Sprintf(why, args...), Fix: fix, Fault: fault}
}

// LocalError returns the error of an operation that failed because of this machine. fix describes a remedy, and may be
// empty.
func LocalError(op, fix string, err error) error {
	return &httpclient.Error{Op: op, Why: err.Error(), Fix: fix, Fault: httpclient.Local, Err: err}
}

// Transient reports whether a retry can help.
func Transient(err error) bool {
	e, ok := errors.AsType[*httpclient.Error](err)
	return ok && e.Fault == httpclient.Unavailable
}

// Unsettled reports whether the request that ended in err may have been carried out nevertheless. An error that is not
// an *httpclient.Error counts as unsettled.
func Unsettled(err error) bool {
	if e, ok := errors.AsType[*httpclient.Error](err); ok {
		return e.Unsettled
	}
	return err != nil
}

// Exit attaches an exit code to an adapter's error, unless the error already has one. For an *httpclient.Error, the
// code is 1 if the service refused the request or doesn't have the job, and 3 otherwise. For any other error, it is the
// code for an interruption if the context was cancelled, and 1 otherwise.
func Exit(err error) error {
	code := exit.Failed
	switch e, ok := errors.AsType[*httpclient.Error](err); {
	case ok && e.Fault != httpclient.Refused && e.Fault != httpclient.Gone:
		code = exit.Environment
	case !ok && errors.Is(err, context.Canceled):
		code = exit.Interrupted
	}
	return exit.Default(code, err)
}
