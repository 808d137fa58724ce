//go:build !linux

package kernelbench

func large[T any](n int) []T { return make([]T, n) }
