package lists

import "slices"

// Map returns the results of f for the items of a list, in order. The result for an empty list is nil.
func Map[T, U any](list []T, f func(T) U) (out []U) {
	out = slices.Grow(out, len(list))
	for _, x := range list {
		out = append(out, f(x))
	}
	return out
}

// Find returns the first item for which is returns true.
func Find[T any](list []T, is func(T) bool) (x T, ok bool) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i], true
	}
	return x, false
}
