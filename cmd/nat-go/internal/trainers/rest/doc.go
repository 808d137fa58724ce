// Package rest makes requests to a service that is not trusted and not reliable.
//
// What every request gets: a bound on each wait (connecting, a body that stops flowing, an answer that trickles in), a bound
// on the size of the answer, errors that name the request and what came back and hold no secret whatever the service wrote,
// and one rule for trying again: a request is repeated where the service said it is busy or could not be reached, and either
// repeating it is harmless or it certainly was not carried out. A POST that makes a job is neither, once it has been sent:
// its error says Unsettled and the caller asks the service what came of it. (The client NAT uses repeats it, and makes two
// jobs.)
package rest
