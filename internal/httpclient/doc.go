// Package httpclient makes requests to a service that is neither trusted nor reliable.
//
// What every request gets: a bound on each wait (connecting, a body that stops flowing, an answer that trickles in), a
// bound on the size of the answer after it is decompressed, errors that name the request and what came back and hold no
// secret whatever the service wrote, and one rule for trying again: a request is repeated where the service said it is
// busy or could not be reached, and either repeating it is harmless or it certainly was not carried out. A POST that
// makes a job is neither, once it has been sent: its error says Unsettled and the caller asks the service what came of
// it.
//
// A redirect is followed where it leads to the same scheme, host and port and keeps the method. Another is an error
// that says where it leads: credentials go to nobody but whom they were given for, a POST never turns into a GET, and a
// job is never made elsewhere. Only a request without credentials, to an address that the service itself handed out,
// may be passed on.
package httpclient
