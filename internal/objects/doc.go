// Package objects reads and writes objects in storage that is accessed over a network and sometimes fails: S3 and
// services that speak its protocol, and, for reading, files served by a web server or the Hugging Face hub.
//
// An object is read in ranges. Received bytes are counted: after an interrupted body, reading continues where it
// stopped, but only if the object is still the same, judging by its size and its ETag or, without one, its time. Object
// storage can't rename objects, so a set of objects is written before the manifest that names them, and the manifest is
// written only if it doesn't exist yet. Listings are never used, since they may be incomplete.
//
// Credentials come from the environment or, for AWS, from its usual sources. Errors never contain them.
package objects
