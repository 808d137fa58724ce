// Package columns fits texts to the width of a terminal: characters that take two columns count as two, and a
// table whose cells are too long is wrapped within its columns.
package columns
