// Package redacttest makes secrets of many kinds, to test that none gets out.
//
// Not part of the promised API.
package redacttest
