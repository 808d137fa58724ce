// Package fanout processes items concurrently and returns the results in the order of the items.
package fanout
