// Package emit holds what the builders share: an output that keeps the first error, and the contents of their records.
package emit
