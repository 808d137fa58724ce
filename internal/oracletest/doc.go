// Package oracletest finds the oracle data for tests: recorded results of other programs and libraries (NAT, Jinja,
// tokenizers, PyTorch). The data is not part of the repository. The package is only for this module's tests.
package oracletest
