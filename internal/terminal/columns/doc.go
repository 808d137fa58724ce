// Package columns fits text to the width of a terminal. It counts wide characters as two columns, and wraps long table
// cells within their columns.
package columns
