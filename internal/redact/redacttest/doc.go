// Package redacttest makes secrets of many kinds, to test that none leaks.
package redacttest
