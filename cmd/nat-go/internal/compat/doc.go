// Package compat contains everything that a run does differently to match NAT byte for byte: which parts of its input
// it reads and how, which builder builds the pairs, how they are curated, and the files that only NAT writes. A run
// asks its Mode for these decisions.
package compat
