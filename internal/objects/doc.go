// Package objects reads and writes objects in storage that is accessed over a network and sometimes fails: S3 and
// services that speak its protocol, and, for reading, files served by a web server or the Hugging Face hub.
//
// An object is read in ranges. After an interruption, reading continues at the next byte, but only if the object is
// unchanged, judging by its size and its ETag or, without one, its time. Because object storage can't rename objects,
// a set of objects is written before the manifest that names them, and the manifest is written only if it doesn't
// exist yet. Listings are not used, because they may be incomplete.
//
// Credentials come from the environment or, for AWS, from its usual sources. Errors never contain them.
package objects
