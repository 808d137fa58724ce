// Package lines reads lines of bounded length: however long a line is, the package never holds more of it than the
// limit and one buffer.
package lines
