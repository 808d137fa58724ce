// Package httpclient makes requests to a service that is neither trusted nor reliable.
//
// Every request has a bound on each wait (connecting, a body that stops flowing, a response that trickles in) and on
// the size of the response after decompression. Errors name the request and the outcome and never contain a secret,
// even if the service wrote one. There is a single retry rule: a request is repeated if the service was busy or
// unreachable, and either repeating the request is harmless or it certainly was not carried out. A POST that creates a
// job is not repeated if its response is lost: the error is Unsettled, and the caller asks the service for the outcome.
//
// A redirect is followed if it leads to the same scheme, host and port and keeps the method. Any other redirect is an
// error that names its target: credentials go only to the host they were given for, a POST never turns into a GET, and
// a job is never created elsewhere. Only a request without credentials, to an address supplied by the service itself,
// may be redirected elsewhere.
package httpclient
