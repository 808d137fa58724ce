// Package redacttest makes secrets of many kinds, to test that none gets out.
package redacttest
