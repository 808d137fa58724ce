package kernels

import "fmt"

// Error is a refused call. Code names the argument at fault: shape, tau, beta, clip, weight, denom, alias, ids,
// offsets, logp, mass, k, target, label_smoothing, kind, nonfinite. Nothing has been written when one is returned,
// save for nonfinite.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return "kernels: " + e.Code + ": " + e.Message }

func fail(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
