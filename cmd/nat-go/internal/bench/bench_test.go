package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// program builds nat-go.
func program(tb testing.TB) string {
	tb.Helper()
	exe := filepath.Join(tb.TempDir(), "nat-go")
	if out, err := exec.Command("go", "build", "-o", exe, "github.com/nat-go/nat-go/cmd/nat-go").
		CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return exe
}

func TestGenerate(t *testing.T) {
	s := Shape{Examples: 3, Turns: 2, Candidates: 4, Seed: 1}
	var a, b bytes.Buffer
	if err := Generate(&a, s); err != nil {
		t.Fatal(err)
	}
	if err := Generate(&b, s); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same shape gives other bytes")
	}
	var rows []struct {
		Steps []json.RawMessage `json:"intermediate_steps"`
	}
	if err := json.Unmarshal(a.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || len(rows[0].Steps) != 8 || s.Records() != 36 {
		t.Errorf("%d rows of %d steps, %d records", len(rows), len(rows[0].Steps), s.Records())
	}
}

// TestRun measures a small input once: the figures mean nothing, but every part is exercised.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	t.Setenv(PythonVariable, "/nonexistent") // a round of NAT takes seconds
	var out bytes.Buffer
	o := Options{
		Program: program(t),
		Dir:     t.TempDir(),
		Shape:   Shape{Examples: 20, Turns: 2, Candidates: 4, Seed: 1},
		Rounds:  1,
		Stream:  0.0005,
	}
	if err := Run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"-> 240 pairs", "writing and syncing the rows", "from a pipe", "NAT can't be imported",
	} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("%q is not in:\n%s", want, out.Bytes())
		}
	}
}

// BenchmarkRun runs the main job on the standard input: 2,000 examples x 3 turns x 8 candidates, format customizer, in
// memory if there is a file system for that. In the same rounds it also runs NAT (if it is installed) and the floor.
// The metrics are medians of five rounds after a warm-up round, whatever b.N is.
func BenchmarkRun(b *testing.B) {
	o := Options{Program: program(b), Shape: Standard, Rounds: 5}
	for b.Loop() {
		report(b, o)
	}
}

// BenchmarkRunOnDisk does the same on the disk of the temporary folder. x-floor is its time divided by the sum of the
// time in memory and the floor (writing and syncing the same bytes there): anything above 1 is lost to waiting that
// could have been work.
func BenchmarkRunOnDisk(b *testing.B) {
	exe := program(b)
	memory, err := newBed(exe, "", Standard)
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	disk, err := newBed(exe, b.TempDir(), Standard)
	if err != nil {
		b.Fatal(err)
	}
	defer disk.Close()
	for b.Loop() {
		var inMemory, onDisk []Usage
		var floors []time.Duration
		for i := range 6 {
			m, _, err := memory.Run(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			d, rows, err := disk.Run(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			floor, err := disk.Floor(rows)
			if err != nil {
				b.Fatal(err)
			}
			if i > 0 { // the first warms up
				inMemory, onDisk, floors = append(inMemory, m), append(onDisk, d), append(floors, floor)
			}
		}
		slices.Sort(floors)
		m, d, floor := median(inMemory).Wall.Seconds(), median(onDisk).Wall.Seconds(), floors[2].Seconds()
		b.Logf("on disk %.3f s: %.2f x (in memory %.3f s + writing and syncing the rows %.3f s); the limit is 1.3", d, d/(m+floor), m, floor)
		b.ReportMetric(d/(m+floor), "x-floor")
		b.ReportMetric(d, "s")
		b.ReportMetric(m, "memory-s")
		b.ReportMetric(floor, "floor-s")
	}
}

func report(b *testing.B, o Options) {
	r, err := measureAll(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	var table strings.Builder
	if err := r.print(&table); err != nil {
		b.Fatal(err)
	}
	b.Logf("the limits beside NAT are 20 times as fast and 128 MiB\n%s", table.String())
	if r.OverNAT > 0 {
		b.ReportMetric(r.OverNAT, "x-NAT")
	}
	l := r.Results[0]
	b.ReportMetric(l.Seconds, "s")
	b.ReportMetric(l.CPUSeconds, "CPU-s")
	b.ReportMetric(l.MBPerSecond, "MB/s")
	b.ReportMetric(l.RecordsPerSecond, "records/s")
	b.ReportMetric(l.PeakMiB, "peak-MiB")
	b.ReportMetric(r.Results[1].Seconds, "floor-s")
}

// BenchmarkPipe runs an input from a pipe as it is generated, and reports the peak memory of host and plugin together,
// which has to be the same whatever the size.
func BenchmarkPipe(b *testing.B) {
	exe := program(b)
	for _, c := range []struct {
		name string
		gb   float64
	}{{"1GB", 1}, {"2GB", 2}, {"4GB", 4}} {
		b.Run(c.name, func(b *testing.B) {
			bed, err := newBed(exe, b.TempDir(), Shape{Examples: 20, Turns: 3, Candidates: 8, Seed: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer bed.Close()
			s := Shape{Examples: 20, Turns: 3, Candidates: 8, Seed: 1}.Scaled(c.gb*1e9, bed.Bytes)
			for b.Loop() {
				began := time.Now()
				u, bytes, err := bed.RunPipe(b.Context(), s)
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%.1f GB from a pipe: host and plugin had at most %d MiB; the limit is 256", float64(bytes)/1e9, u.Peak>>20)
				b.ReportMetric(float64(u.Peak)/(1<<20), "peak-MiB")
				b.ReportMetric(float64(bytes)/1e6/time.Since(began).Seconds(), "MB/s")
			}
		})
	}
}

// BenchmarkGenerate measures the throughput of the pipe's generator.
func BenchmarkGenerate(b *testing.B) {
	s := Shape{Examples: 100, Turns: 3, Candidates: 8, Seed: 1}
	var n counter
	n.w = io.Discard
	for b.Loop() {
		if err := Generate(&n, s); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(n.n / int64(b.N))
}

// TestPython checks that a Python that was named but can't import NAT is reported with the last line of its error,
// since NAT may well be installed there without something that it needs.
func TestPython(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\necho Traceback\necho \"ModuleNotFoundError: No module named 'langchain_core'\" >&2\nexit 1\n"
	if err := os.WriteFile(python, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	t.Setenv(PythonVariable, python)
	got, why := findPython(t.Context())
	if got != "" || !strings.Contains(why, python) || !strings.HasSuffix(why, "No module named 'langchain_core'") {
		t.Errorf("%q: %s", got, why)
	}
	t.Setenv(PythonVariable, python+"3")
	if got, why = findPython(t.Context()); got != "" || !strings.Contains(why, "no such file") {
		t.Errorf("%q: %s", got, why)
	}
}
