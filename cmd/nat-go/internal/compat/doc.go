// Package compat contains everything that a run does differently to match NAT, byte for byte: which parts of its input
// are read and how, which builder makes the pairs, how they are curated, and the files that only NAT writes. A run asks
// a Mode; none of its other code distinguishes modes.
package compat
