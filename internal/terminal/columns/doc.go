// Package columns fits texts to the width of a terminal. It counts wide characters as two columns, and wraps long cells
// of a table within their columns.
package columns
