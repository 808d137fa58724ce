//go:build !linux

package process

func withoutLandlock() error { return nil }
func undumped() bool         { return false }
