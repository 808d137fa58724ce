// Package lines reads lines of bounded length: however long a line is, no more of it is held than the limit.
package lines
