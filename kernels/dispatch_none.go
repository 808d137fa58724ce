//go:build purego || !amd64

package kernels

func assemblyPaths() []*tileSet { return nil }
