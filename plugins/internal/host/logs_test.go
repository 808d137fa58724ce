package host

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// TestErrorsOfGoPlugin checks that an error that go-plugin logs is in the log as text, beside its other fields.
func TestErrorsOfGoPlugin(t *testing.T) {
	var out bytes.Buffer
	hostLogger(zerolog.New(&out)).Named("client").Warn("plugin failed to exit gracefully",
		"err", errors.New("no such process"), "pid", 7, "plugin", "/opt/acme")
	want := `{"level":"debug","from":"go-plugin","err":"no such process","pid":7,` +
		`"message":"client plugin failed to exit gracefully"}`
	if got := strings.TrimSpace(out.String()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
