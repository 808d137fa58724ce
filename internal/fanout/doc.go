// Package fanout processes items concurrently and returns the results in item order.
package fanout
