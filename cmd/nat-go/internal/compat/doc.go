// Package compat is all that a run does otherwise to be NAT, byte for byte: what of its input is read and how, which
// builder makes the pairs, how they are curated, and the files that only NAT writes. A run asks a Mode; nothing else in
// it knows.
package compat
