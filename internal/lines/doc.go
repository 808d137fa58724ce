// Package lines reads lines of bounded length. It never holds more of a line than the limit and one buffer.
package lines
