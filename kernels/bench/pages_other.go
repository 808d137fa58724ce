//go:build !linux

package bench

func large[T any](n int) []T { return make([]T, n) }
