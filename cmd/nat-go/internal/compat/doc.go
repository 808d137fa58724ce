// Package compat contains all differences of a run that matches NAT byte for byte: in how it reads its input, which
// builder builds the pairs, how the pairs are curated, and in the files that only NAT writes. A run gets these
// decisions from its Mode.
package compat
