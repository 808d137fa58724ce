//go:build !linux

package process

// confine does nothing: the environment and the memory of other processes can't be read here without privileges.
func confine() {}

func isMainThread() bool { return false }
