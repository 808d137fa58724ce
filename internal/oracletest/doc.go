// Package oracletest finds the oracle data for tests: recorded answers from peers (NAT, Jinja, tokenizers, PyTorch).
// The data is not part of the repository. The package is only for this module's tests.
package oracletest
