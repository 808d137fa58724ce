package sessiontest

import (
	"bytes"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// Bench reports how fast a file of lines with the given number of calls is read ("MB/cpu-s"), and the ratio of the
// time for reading it to the time for just scanning the values of its lines ("scans/op"). It alternates between the
// two, and measures processor time because other processes hardly affect it.
func Bench(b *testing.B, f source.Factory, path string, calls int64) {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var scan, read time.Duration
	for b.Loop() {
		start := processorTime(b)
		for line := range bytes.Lines(text) {
			if _, err := json.Parse(bytes.TrimSpace(line), json.Limits{}); err != nil {
				b.Fatal(err)
			}
		}
		scanned := processorTime(b)
		if r := Read(b, f, path); r.Stats.Calls != calls {
			b.Fatal(r.Stats)
		}
		scan, read = scan+scanned-start, read+processorTime(b)-scanned
	}
	b.ReportMetric(float64(len(text))*float64(b.N)/1e6/read.Seconds(), "MB/cpu-s")
	b.ReportMetric(float64(read)/float64(scan), "scans/op")
}

// processorTime returns the processor time used by the process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
