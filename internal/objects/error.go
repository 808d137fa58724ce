package objects

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
)

// Error explains to users why an operation on an object failed. It never contains credentials.
type Error struct {
	Path string
	What string
	Help string
	Err  error // fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, errChanged, a context's error; else nil

	final bool   // retrying is pointless
	pause string // delay in seconds, as requested by the service
}

func (e *Error) Error() string {
	s := e.Path + ": " + e.What
	if e.Help != "" {
		s += ". " + e.Help
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// errChanged is wrapped by the error for an object that has changed since it was opened.
var errChanged = errors.New("object changed")

// statusError is the error for a response with an error status.
type statusError struct {
	status     int
	code       string // S3's error code: "SlowDown"
	message    string
	retryAfter string
}

func (e *statusError) Error() string {
	text := cmp.Or(e.code, http.StatusText(e.status))
	if e.message != "" {
		text += ": " + e.message
	}
	return fmt.Sprintf("status %d, %s", e.status, text)
}

// maxMessage is the maximum length of a service's message in an error.
const maxMessage = 300

// explain converts an error into a user-facing one without secrets.
func explain(ctx context.Context, p, doing string, err error, hidden *secret.Values) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	if ctx.Err() != nil {
		return &Error{Path: p, What: "cannot " + doing + ": interrupted", Err: context.Cause(ctx), final: true}
	}
	e := &Error{Path: p}
	status := answered(err)
	if status == nil {
		e.final = certain(err) || errors.As(err, new(redirectError))
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err // omit the address
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			err = errors.New("connection was closed before the whole response had arrived")
		}
		e.What = "cannot " + doing + ": " + clean(err.Error(), hidden)
		return e
	}
	e.pause = status.retryAfter
	e.What = "cannot " + doing + ": " + clean(status.Error(), hidden)
	switch s := status.status; {
	case s == http.StatusNotFound:
		e.Err, e.Help, e.final = fs.ErrNotExist, "Check the bucket and the key", true
		e.What = "there is no such object (" + clean(status.Error(), hidden) + ")"
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Err, e.Help, e.final = fs.ErrPermission, "Check the credentials in the environment and their rights", true
	case s == http.StatusPreconditionFailed:
		e.Err, e.final = errChanged, true
	case s == http.StatusMovedPermanently || s == http.StatusTemporaryRedirect:
		e.Help, e.final = "Check AWS_REGION and AWS_ENDPOINT_URL: the bucket has another region or endpoint", true
	default:
		e.final = !passing(s, status.code)
	}
	return e
}

// answered returns the service's response that err reports, or nil if there was none.
func answered(err error) *statusError {
	if own, ok := errors.AsType[*statusError](err); ok {
		return own
	}
	var s3 minio.ErrorResponse
	if !errors.As(err, &s3) || s3.StatusCode == 0 {
		return nil
	}
	return &statusError{status: s3.StatusCode, code: s3.Code, message: s3.Message}
}

// passing reports whether a response's error may be temporary, so that a retry may succeed.
func passing(status int, code string) bool {
	switch code {
	case "RequestTimeout", "BadDigest", "IncompleteBody", "InvalidDigest", "XAmzContentSHA256Mismatch", "SlowDown",
		"ConditionalRequestConflict", "OperationAborted":
		return true
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// certain reports whether a request without a response would fail again in the same way.
func certain(err error) bool {
	var dns *net.DNSError
	return errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) ||
		errors.As(err, new(x509.CertificateInvalidError)) || errors.As(err, &dns) && dns.IsNotFound ||
		strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// clean prepares external text for display.
func clean(text string, hidden *secret.Values) string {
	text = terminal.Line(secret.Shape(hidden.Redact(text)))
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return text
}
