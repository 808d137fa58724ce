package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

func respond(t *testing.T, script string, limit int) *Responder {
	t.Helper()
	r, err := Respond(Config{Args: []string{"sh", "-c", script}, Env: os.Environ()}, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.End() })
	return r
}

func TestResponder(t *testing.T) {
	r := respond(t, `echo loading >&2; while read -r line; do echo "<$line>"; done`, 100)
	for _, ask := range []string{"a", "b"} {
		got, err := r.Ask(t.Context(), []byte(ask+"\n"), time.Minute)
		if err != nil || string(got) != "<"+ask+">" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if said := r.End(); said != "loading" {
		t.Errorf("it said %q", said)
	}
}

func TestResponderFails(t *testing.T) {
	for _, c := range []struct {
		script, want string
		wait         time.Duration
	}{
		{"exit 1", "ended", time.Minute},
		{"read -r x; exit 1", "ended without an answer", time.Minute},
		{"read -r x; sleep 1000", "did not answer within", 50 * time.Millisecond},
		{`read -r x; printf '%0200d\n' 1; sleep 1000`, "more than 100 bytes", time.Minute},
		{"cat /dev/zero", "more than 100 bytes", time.Minute},
		{"cat /dev/zero >&2", "did not answer within", 200 * time.Millisecond},
		{"sleep 1000 # without reading", "did not answer within", 200 * time.Millisecond},
		{"exec >&-; sleep 1000", "ended", time.Minute},
		{"setsid sleep 1000 & exit 0", "ended", time.Minute},
	} {
		t.Run(c.script, func(t *testing.T) {
			r := respond(t, c.script, 100)
			// This is more than a pipe holds: it can't be sent to a program that doesn't read all of it.
			_, err := r.Ask(t.Context(), append(bytes.Repeat([]byte("x"), 1<<20), '\n'), c.wait)
			// The broken pipe to a program that has ended may be noticed first.
			if err == nil || !strings.Contains(err.Error(), c.want) && !strings.Contains(err.Error(), "did not read") {
				t.Errorf("%s: got %v, want %q", c.script, err, c.want)
			}
		})
	}
	r := respond(t, "sleep 1000", 100)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := r.Ask(ctx, []byte("x\n"), time.Minute); !errors.Is(err, stop) {
		t.Errorf("after the context's end: %v", err)
	}
}
