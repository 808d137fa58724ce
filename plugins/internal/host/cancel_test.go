package host

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestCancelledWhileOpening: a session that is cancelled while the plugin is opening it ends at once, without waiting
// for the plugin's process, which has nothing wrong with it, to exit.
func TestCancelledWhileOpening(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "raw", Path: testPlugin, Args: []string{"raw"}, DrainTimeout: time.Second}
	p, err := Start(t.Context(), spec, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := p.Open(ctx, "pairs", "mine", []byte(`{"do":"hang in open"}`))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // until the call has arrived
	cancel()
	began := time.Now()
	s.Close()
	if d := time.Since(began); d > goneWait/2 {
		t.Errorf("Close took %s", d)
	}
}
