package cli

import (
	"strings"
	"testing"
)

func TestSpaceOf(t *testing.T) {
	if err := checkSpaceLimit(minSpace); err != nil {
		t.Error(err)
	}
	if err := checkSpaceLimit(1536 << 20); err == nil || !strings.Contains(err.Error(), "1536 MiB (ulimit -v)") {
		t.Error(err)
	}
}
