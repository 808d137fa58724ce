package sessiontest

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Bench measures how fast a file of lines with this many calls is read, and how many times as long that takes as
// finding where the values of its lines end.
func Bench(b *testing.B, f source.Factory, path string, calls int64) {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	scan := time.Duration(1<<63 - 1)
	for range 3 {
		start := time.Now()
		for line := range bytes.Lines(text) {
			if _, err := json.Parse(bytes.TrimSpace(line), json.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
		scan = min(scan, time.Since(start))
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if r := Read(b, f, path); r.Stats.Calls != calls {
			b.Fatal(r.Stats)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(scan), "scans/op")
}
