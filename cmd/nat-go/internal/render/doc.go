// Package render answers what a chat template makes of conversations, JSON lines in and out: `nat-go chat render`.
//
// It renders what it is given, as transformers would: reasoning gets its aliases, nothing else is changed, unless trace
// normalisation is asked for. Every request has one answer line, in order, also a malformed one; answers are ASCII.
package render
