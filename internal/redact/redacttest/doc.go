// Package redacttest makes secrets of many kinds, for tests that check that none leaks.
package redacttest
