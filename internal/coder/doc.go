// Package coder encodes values for files that only nat-go reads. Each part of an encoding is described once, by a
// function that both writes and reads it, so that the two directions can't diverge.
//
// Values are varints, little-endian numbers, JSON and length-prefixed bytes. A reader trusts nothing: it doesn't panic,
// and it doesn't allocate more than its data and its room allow.
package coder
