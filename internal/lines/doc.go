// Package lines reads lines of a bounded length: however long a line is, no more of it is kept than the limit.
package lines
