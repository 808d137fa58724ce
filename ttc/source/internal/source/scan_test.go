package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/traces"
)

// found is what a pass over an input finds of its examples.
type found struct {
	Cursors []source.Cursor
	Named   []string
	Sum     uint64
	Failed  bool
}

// scanOpeners open a file with each source that notes entries.
func scanOpeners() map[string]func(string) func(context.Context, source.Options) (source.Source, error) {
	return map[string]func(string) func(context.Context, source.Options) (source.Source, error){
		"candidates": func(path string) func(context.Context, source.Options) (source.Source, error) {
			cfg := schema.New[candidates.Config]()
			cfg.Path = []string{path}
			return func(ctx context.Context, opt source.Options) (source.Source, error) {
				return candidates.Open(ctx, cfg, opt)
			}
		},
		"traces": func(path string) func(context.Context, source.Options) (source.Source, error) {
			cfg := schema.New[traces.Config]()
			cfg.Path = []string{path}
			return func(ctx context.Context, opt source.Options) (source.Source, error) {
				return traces.Open(ctx, cfg, opt)
			}
		},
	}
}

// TestScan checks that a scan by blocks finds the same examples, names and hash as reading from the beginning, wherever
// the blocks begin.
func TestScan(t *testing.T) {
	inputs := map[string]func(*rand.Rand) string{
		"lines":            func(r *rand.Rand) string { return scanLines(r, "\n", "") },
		"carriage returns": func(r *rand.Rand) string { return scanLines(r, "\r\n", "") },
		"byte order mark":  func(r *rand.Rand) string { return "\xEF\xBB\xBF" + scanLines(r, "\n", "") },
		"several a line":   func(r *rand.Rand) string { return scanLines(r, " ", "\n") },
		"over lines": func(r *rand.Rand) string {
			return strings.ReplaceAll(scanLines(r, "\n", ""), `,"score"`, ",\n\n\"score\"")
		},
		"no newline at the end": func(r *rand.Rand) string { return strings.TrimSpace(scanLines(r, "\n", "")) },
		"no entries":            func(*rand.Rand) string { return strings.Repeat("17\n", 100) },
		"entries late": func(r *rand.Rand) string {
			return strings.Repeat("17\n", 300) + scanLines(r, "\n", "")
		},
		"cut off": func(r *rand.Rand) string { return scanLines(r, "\n", "") + `{"id":"x","prompt":"` },
		"not JSON": func(r *rand.Rand) string {
			return scanLines(r, "\n", "") + "}{\n" + scanLines(r, "\n", "")
		},
	}
	seed := rand.Uint64()
	for kind, open := range scanOpeners() {
		for name, input := range inputs {
			t.Run(kind+"/"+name, func(t *testing.T) {
				for round := range uint64(2) {
					r := rand.New(rand.NewPCG(seed, round))
					path := filepath.Join(t.TempDir(), "in.jsonl")
					text := input(r)
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
					want := readAll(t, open(path))
					for _, block := range []int64{100, 700, 4096, 1 << 20} {
						got := scanAll(t, path, int64(len(text)), block, open(path))
						if want.Failed {
							if !got.Failed {
								t.Fatalf("seed %d, blocks of %d: no error", seed, block)
							}
							continue
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("seed %d, blocks of %d: %s", seed, block, diff)
						}
					}
				}
			})
		}
	}
}

// TestScanReadsNothingAgain checks that blocks without any example aren't read again for each block before them.
func TestScanReadsNothingAgain(t *testing.T) {
	const lines = 4000
	path := filepath.Join(t.TempDir(), "in.jsonl")
	text := `{"id":"a","messages":[{"role":"assistant","content":"v"}],"prompt":"q","output":"a"}` + "\n" +
		strings.Repeat(`17`+"\n", lines)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, open := range scanOpeners() {
		t.Run(kind, func(t *testing.T) {
			var read atomic.Int64
			got := scanAll(t, path, int64(len(text)), 300, func(
				ctx context.Context, opt source.Options,
			) (source.Source, error) {
				drop := opt.Drop
				opt.Drop = func(d ledger.Drop) {
					read.Add(1)
					if drop != nil {
						drop(d)
					}
				}
				return open(path)(ctx, opt)
			})
			if got.Failed || len(got.Cursors) != 1 || read.Load() > 4*lines {
				t.Errorf("%d examples, %d lines read of %d, failed: %v", len(got.Cursors), read.Load(), lines,
					got.Failed)
			}
		})
	}
}

func readAll(t *testing.T, open func(context.Context, source.Options) (source.Source, error)) (f found) {
	t.Helper()
	src, err := open(t.Context(), source.Options{Named: func(row int64, id string) {
		f.Named = append(f.Named, fmt.Sprint(row, " ", id))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	for {
		_, at, err := src.Next(t.Context())
		if errors.Is(err, io.EOF) {
			f.Sum = src.Inputs()[0].Sum
			return f
		}
		if err != nil {
			f.Failed = true
			return f
		}
		f.Cursors = append(f.Cursors, at)
	}
}

func scanAll(
	t *testing.T, path string, size, block int64, open func(context.Context, source.Options) (source.Source, error),
) (f found) {
	t.Helper()
	sum, err := source.Scan(t.Context(), source.ScanOptions{
		Path: path, Size: size, Block: block, Workers: 3, Open: open,
		Named: func(row int64, id string) { f.Named = append(f.Named, fmt.Sprint(row, " ", id)) },
	}, func(at source.Cursor) error {
		f.Cursors = append(f.Cursors, at)
		return nil
	})
	f.Sum, f.Failed = sum, err != nil
	return f
}

// scanLines returns entries that both sources read: examples of several lines, ids that repeat, are missing or look
// like those given to rows, identical entries, and lines that aren't entries.
func scanLines(r *rand.Rand, end, sometimes string) string {
	var b strings.Builder
	last := ""
	for i := range 20 + r.IntN(40) {
		id := fmt.Sprintf(`"id":"e%d",`, r.IntN(12))
		switch r.IntN(8) {
		case 0:
			id = ""
		case 1:
			id = fmt.Sprintf(`"id":"#%d",`, r.IntN(40))
		}
		for range 1 + r.IntN(3) {
			line := fmt.Sprintf(
				`{%s"prompt":"q\n{ %d","response":"%s","output":"a","messages":[{"role":"user","content":"u%d"},`+
					`{"role":"assistant","content":"v"}],"score":0.%d}`,
				id, r.IntN(3), strings.Repeat("é[", r.IntN(30)), r.IntN(4), r.IntN(9))
			b.WriteString(line + end)
			last = line
		}
		switch r.IntN(9) {
		case 0:
			b.WriteString("17" + end)
		case 1:
			b.WriteString(last + end)
		case 2:
			b.WriteString(`{"messages":3}` + end)
		}
		if i%5 == 0 {
			b.WriteString(sometimes)
		}
	}
	return b.String()
}
