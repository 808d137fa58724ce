// Package oracletest finds the oracle data for tests: what peers (NAT, Jinja, tokenizers, PyTorch) were recorded to
// answer. The data is not part of the repository. It is for this module's tests and not promised to others.
package oracletest
