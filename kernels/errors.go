package kernels

import (
	"fmt"
	"slices"
	"strings"
)

// Code identifies the invalid argument of a rejected call.
type Code string

// The codes.
const (
	CodeShape          Code = "shape"           // rows, columns, strides and lengths that don't match
	CodeTemperature    Code = "tau"             // Options.Temperature
	CodeBeta           Code = "beta"            // Options.Beta, PreferenceOptions.Beta or PolicyOptions.KL
	CodeClip           Code = "clip"            // a clip mode, its value or a clip range
	CodeWeight         Code = "weight"          // weights and advantages
	CodeDenominator    Code = "denom"           // a reduction or its denominator
	CodeAlias          Code = "alias"           // a gradient that overlaps an input
	CodeIDs            Code = "ids"             // ids of a sparse teacher
	CodeOffsets        Code = "offsets"         // the start offsets of rows or sequences
	CodeLogProb        Code = "logp"            // a value that can't be a log-probability
	CodeMass           Code = "mass"            // log-probabilities whose total mass exceeds 1
	CodeK              Code = "k"               // the size of a top-k support
	CodeTarget         Code = "target"          // a target outside the vocabulary
	CodeLabelSmoothing Code = "label_smoothing" // PreferenceOptions.LabelSmoothing
	CodeKind           Code = "kind"            // PreferenceOptions.Kind or a Rest
	CodePath           Code = "path"            // Options.Path or NATGO_KERNELS
	CodeNonFinite      Code = "nonfinite"       // a row without a softmax, with Options.Strict
)

// Error describes a rejected call. If one is returned, nothing has been written, except with CodeNonFinite.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return "kernels: " + string(e.Code) + ": " + e.Message }

// parse returns the position of a name in a list, which is 0 for an empty name.
func parse[T ~uint8](code Code, what, name string, names ...string) (T, error) {
	if name == "" {
		return 0, nil
	}
	at := slices.Index(names, name)
	if at < 0 {
		last := len(names) - 1
		but := strings.Join(names[:last], ", ")
		return 0, fail(code, "unknown %s %q: expected %s or %s", what, name, but, names[last])
	}
	return T(at), nil
}

func fail(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
