// Package coder encodes values for files that only nat-go reads. Each part of an encoding is described once, by a
// function that both writes and reads it, so that the two directions can't diverge.
//
// Values are varints, little-endian numbers, JSON and length-prefixed bytes. The data is untrusted: invalid data
// doesn't make a reader panic, or allocate more memory than the data's size and Coder.Room allow.
package coder
