// Package oracletest finds the oracle data for tests: recorded answers of peers (NAT, Jinja, tokenizers, PyTorch). The
// data is not part of the repository. It is for this module's tests and not promised to others.
package oracletest
