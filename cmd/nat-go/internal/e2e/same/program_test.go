package same

import (
	"os"
	"testing"
)

func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("NATGO_PROGRAM")
	if path == "" {
		t.Skip("NATGO_PROGRAM names no built program")
	}
	return path
}
