// Package httpclient makes requests to a service that is neither trusted nor reliable.
//
// Every request has a limit on each wait (for a connection, a stalled body or a slow response) and on the size of the
// response after decompression. Errors name the request and the outcome, and never contain a secret, even if the
// service's response does. There is a single retry rule: a request is repeated if the service was busy or
// unreachable, and either repeating it is harmless or it certainly was not carried out. A POST that creates a job is
// not repeated if its response is lost. The error is then Unsettled, and the caller has to ask the service for the
// outcome.
//
// A redirect is followed if it leads to the same scheme, host and port and keeps the method. Any other redirect is an
// error that names its target, because credentials must be sent only to the host they are for, a POST must not become
// a GET, and a job must not be created elsewhere. Only a request without credentials, to an address supplied by the
// service itself, may be redirected elsewhere.
package httpclient
