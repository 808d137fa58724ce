// Package redact removes secrets and personal data from agents' traces, before anything is written.
//
// Each finding is replaced with a tag that names its class, "<REDACTED:email:3>". A value has the same tag throughout
// a data set, in text, reasoning, arguments and results alike, so that a value copied from a result into a call still
// matches the original. A tag within a turn is not trained on (see Tags), because a model must not learn to write it.
//
// Service tokens and values that are named like secrets are found by internal/secret; the rules here find personal
// data, and values recognised by their surroundings or a checksum. README.md reports the detection rates.
//
// After an example has been redacted, the package keeps its tool definitions, because the next example may share
// them, but only hashes of its other values.
package redact
