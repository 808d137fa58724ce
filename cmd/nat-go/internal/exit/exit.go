package exit

import (
	"errors"
	"fmt"
)

// nat-go's exit codes.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	Environment = 3
	Final       = 4 // a shard failed, and the same command would fail again
	Interrupted = 130
	Terminated  = 143
)

// Error is an error with an exit code. A nil Err means that the command has printed everything, so no error message is
// printed.
type Error struct {
	Code int
	Err  error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error without its code.
func (e *Error) Unwrap() error { return e.Err }

// With returns err with an exit code.
func With(code int, err error) error { return &Error{Code: code, Err: err} }

// Default returns err with an exit code, or err itself if it already has one. It returns nil if err is nil.
func Default(code int, err error) error {
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	return With(code, err)
}

// Failedf returns an error with exit code 1, for a failed run.
func Failedf(format string, a ...any) error { return With(Failed, fmt.Errorf(format, a...)) }

// Usagef returns an error with exit code 2, for an invalid configuration or command line.
func Usagef(format string, a ...any) error { return With(Usage, fmt.Errorf(format, a...)) }

// Environmentf returns an error with exit code 3, for a problem in the environment.
func Environmentf(format string, a ...any) error { return With(Environment, fmt.Errorf(format, a...)) }

// Cant returns an error with exit code 3 that names the failed action and the cause. It returns nil if err is nil.
func Cant(do string, err error) error {
	if err == nil {
		return nil
	}
	return Environmentf("cannot %s: %w", do, err)
}

// Code returns the exit code of err. It is 0 for nil, and 1 for an error without an exit code.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Failed
}

// Reworded returns err with its text replaced by the result of word, and with the same exit code.
func Reworded(err error, word func(text string) string) error {
	if err == nil {
		return nil
	}
	text := word(err.Error())
	if text == err.Error() {
		return err
	}
	changed := &reworded{err, text}
	if coded := (*Error)(nil); errors.As(err, &coded) { // an Error prints only the text of its Err
		return With(coded.Code, changed)
	}
	return changed
}

type reworded struct {
	err  error
	text string
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.err }
