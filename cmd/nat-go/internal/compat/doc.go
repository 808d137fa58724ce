// Package compat contains every difference between a normal run and a run that matches NAT byte for byte. The
// differences concern how the input is read, which builder builds the pairs, how the pairs are curated, and which of
// NAT's files are written. A run queries its Mode for these decisions.
package compat
