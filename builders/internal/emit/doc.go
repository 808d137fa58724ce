// Package emit holds code that the builders share: an output that keeps the first error, and helpers for candidates and
// for the contents of records.
package emit
