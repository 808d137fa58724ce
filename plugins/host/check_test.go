package host

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/internal/secret"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestCleanDrop checks that what a plugin reports about its drops is cleaned up before it goes into the books.
func TestCleanDrop(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, c := range []struct{ in, want ledger.Drop }{
		{
			ledger.Drop{Reason: ledger.SameText, Unit: "candidate", Stage: "gate", Builder: "x", Format: "trl"},
			ledger.Drop{Reason: ledger.SameText, Unit: "candidate"},
		},
		{
			ledger.Drop{Reason: "too short\x1b[2J", Unit: "site", Count: -7},
			ledger.Drop{Reason: "p/too_short_[2J", Unit: "site"},
		},
		{
			ledger.Drop{Reason: "p/own", Unit: "unit of its own", Detail: "one\ntwo"},
			ledger.Drop{Reason: "p/own", Unit: "record", Detail: "one\ntwo"},
		},
		{ledger.Drop{}, ledger.Drop{Reason: "p/unspecified", Unit: "record"}},
		{
			ledger.Drop{Reason: ledger.Reason(long), Unit: "step", Detail: long},
			ledger.Drop{
				Reason: ledger.Reason("p/" + long[:maxReason] + "..."),
				Unit:   "step",
				Detail: long[:maxDetail] + "...",
			},
		},
	} {
		got := c.in
		cleanDrop(&got, Spec{Name: "p", Known: func(r ledger.Reason) bool { return r == ledger.SameText }}, "mine")
		c.want.Stage, c.want.Builder = ledger.Build, "mine"
		if got != c.want {
			t.Errorf("got  %+v\nwant %+v", got, c.want)
		}
	}
}

// TestLogIsBounded checks that however much a plugin prints, the log takes a bounded amount of it per second and says
// that there was more.
func TestLogIsBounded(t *testing.T) {
	for name, line := range map[string]string{"long": strings.Repeat("x", 200<<10), "longer": strings.Repeat("x", 1<<20), "JSON": `{"message":"m","field":"` + strings.Repeat("y", 200<<10) + `"}`, "short": "x"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // no second passes, however slow the machine is
				var log bytes.Buffer
				p := newLogPump(zerolog.New(&log), new(secret.Values))
				const n = 1000
				p.drain(io.LimitReader(&repeat{line: line + "\n"}, int64(n*(len(line)+1))), "stderr")
				if most := bytesPerSec + linesPerSec*100; log.Len() > most ||
					!strings.Contains(log.String(), "prints too much") {
					t.Errorf("%d lines of %d bytes make %d bytes of log; want at most %d", n, len(line), log.Len(),
						most)
				}
			})
		})
	}
}

// repeat is an endlessly repeated line.
type repeat struct {
	line string
	at   int
}

func (r *repeat) Read(b []byte) (int, error) {
	n := copy(b, r.line[r.at:])
	r.at = (r.at + n) % len(r.line)
	return n, nil
}
