// Package lazy delays work until its result is needed, so that it doesn't slow down programs that don't need it.
package lazy
