//go:build !amd64

package escape

// Blocks appends nothing: there are no instructions for it.
func Blocks(dst []byte, _ string) ([]byte, int) { return dst, 0 }
