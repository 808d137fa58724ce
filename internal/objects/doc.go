// Package objects reads and writes objects in a storage that is reached over a network and fails now and then: S3 and
// what speaks its protocol, and files that a web server or the Hugging Face hub hands out, for reading.
//
// An object is read in ranges. What comes is counted: a body that is cut off goes on where it ended, and only if the
// object is the same, by its ETag. There is no rename in such a storage: what belongs together is written first, and
// the manifest that names it last, if it isn't there yet. A listing is never asked for, since it may be incomplete.
//
// Credentials come from the environment, and no error has one in it.
//
// Not part of the promised API.
package objects
