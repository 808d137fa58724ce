// Package lines reads lines of bounded length: however long a line is, it never holds more of it than the limit.
package lines
