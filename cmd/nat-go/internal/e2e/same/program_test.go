package same

import (
	"os"
	"testing"
)

func program(t *testing.T) string {
	t.Helper()
	return os.Getenv("NATGO_PROGRAM")
}
