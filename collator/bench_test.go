//go:build tokenizers

package collator

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/ttc"
)

// freshTokenizer has an empty segment cache.
func freshTokenizer(b *testing.B, name string) *tokenizer.Tokenizer {
	b.Helper()
	tok, err := tokenizer.Load(oracletest.Path(b, "chat", "tokens", "tokenizers", name))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(tok.Close)
	return tok
}

// BenchmarkAirline renders, tokenises and masks the real traces on one thread, as token rows with checks and proofs,
// without writing them. For comparison, if NATGO_PYTHON names a python with jinja2 and tokenizers, it measures the
// least that a Python collator has to do: one render, one encode, and a mask over the offsets from one scan of the
// text.
func BenchmarkAirline(b *testing.B) {
	for _, name := range []string{"qwen2_5", "llama3_1"} {
		b.Run(name, func(b *testing.B) {
			tok := freshTokenizer(b, map[string]string{
				"qwen2_5":  "qwen2_5.json",
				"llama3_1": "Meta-Llama-3-8B-Instruct.json",
			}[name])
			c, err := New(Config{
				Tokenizer:    tok,
				Template:     oracletest.Template(b, name+".jinja"),
				TemplateVars: airlineVars(),
				MaxLength:    1 << 20,
				BatchTokens:  1 << 20,
			})
			if err != nil {
				b.Fatal(err)
			}
			var items []Item
			for _, ex := range airline(b) {
				items = append(items, demonstrationOf(ex, nil))
			}
			w := &worker{Collator: c}
			tokens, library := 0, time.Duration(0)
			b.ReportAllocs()
			b.ResetTimer()
			start := processorTime(b)
			for range b.N {
				tok.SetCacheBytes(tokenizer.DefaultCacheBytes) // empty: every pass is like the first
				tokens = 0
				for i := range items {
					out := channelOf(builders.KindDemonstration).rows(w, &items[i])
					for k := range out.Rows {
						tokens += len(out.Rows[k].Sides[0].IDs)
					}
				}
			}
			ours := (processorTime(b) - start) / time.Duration(b.N)
			b.StopTimer()
			b.ReportMetric(float64(tokens)/ours.Seconds(), "tokens/s")
			library = encodeAll(b, c, items)
			b.ReportMetric(100*library.Seconds()/ours.Seconds(), "%library-if-nothing-were-cached")
			if python := os.Getenv("NATGO_PYTHON"); python != "" {
				theirs := pythonTime(b, python, name, false)
				b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x-python")
			}
		})
	}
}

// processorTime returns the processor time used by the process so far, including garbage collection: on a busy machine,
// and for comparing one thread with another, it is more meaningful than the clock.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// encodeAll returns the time the library takes to encode the same texts whole.
func encodeAll(b *testing.B, c *Collator, items []Item) time.Duration {
	b.Helper()
	var texts []string
	w := &worker{Collator: c}
	for i := range items {
		m := &material{nodes: items[i].Record.Messages.Nodes}
		if w.prepare(m) == nil {
			if res, err := c.render.Render(m.conv); err == nil {
				texts = append(texts, res.Text)
			}
		}
	}
	if _, err := c.cfg.Tokenizer.Encode("", tokenizer.Options{ParseSpecial: true}); err != nil { // loads
		b.Fatal(err)
	}
	start := processorTime(b)
	for _, text := range texts {
		if _, err := c.cfg.Tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true}); err != nil {
			b.Fatal(err)
		}
	}
	return processorTime(b) - start
}

// airlinePairs are preferences on the beginnings of real traces: eight answers at each of five positions in a trace, in
// all pairs.
func airlinePairs(b testing.TB) (groups [][]Item) {
	answers := make([]string, 8)
	for _, ex := range airline(b)[:20] {
		ns := ex.Graph.Nodes
		seen := 0
		for i := range ns {
			if ns[i].Message.Role != "user" || seen == 5 {
				continue
			}
			seen++
			for k := range answers {
				answers[k] = fmt.Sprintf("Answer %d: %s", k, strings.Repeat("I will look into this for you. ", k+1))
			}
			var group []Item
			for a := range answers {
				for r := a + 1; r < len(answers); r++ {
					group = append(group, Item{Hash: "h", Record: &builders.Resolved{
						Record: &builders.Preference{},
						Origin: &builders.Origin{
							Example:  ex.ID,
							Fidelity: ttc.TextOnly,
						},
						Prompt:   builders.Passage{Nodes: ns[:i+1]},
						Chosen:   builders.Passage{Text: answers[a]},
						Rejected: builders.Passage{Text: answers[r]},
					}})
				}
			}
			groups = append(groups, group)
		}
	}
	return groups
}

// BenchmarkPairs makes preference rows from pairs that share prompts.
func BenchmarkPairs(b *testing.B) {
	tok := freshTokenizer(b, "qwen2_5.json")
	c, err := New(Config{
		Tokenizer:   tok,
		Template:    oracletest.Template(b, "qwen2_5.jinja"),
		MaxLength:   1 << 20,
		BatchTokens: 1 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	groups := airlinePairs(b)
	w := &worker{Collator: c}
	b.ReportAllocs()
	b.ResetTimer()
	start := processorTime(b)
	for range b.N {
		tok.SetCacheBytes(tokenizer.DefaultCacheBytes)
		for _, g := range groups {
			for _, o := range w.outcomes(g) {
				if o.Refused != nil {
					b.Fatal(o.Refused)
				}
			}
		}
	}
	ours := (processorTime(b) - start) / time.Duration(b.N)
	b.StopTimer()
	if python := os.Getenv("NATGO_PYTHON"); python != "" {
		b.ReportMetric(pythonTime(b, python, "qwen2_5", true).Seconds()/ours.Seconds(), "x-python")
	}
}

// pythonTime asks testdata/bench.py for the best time of a pass.
func pythonTime(b *testing.B, python, name string, pairs bool) time.Duration {
	b.Helper()
	file := map[string]string{"qwen2_5": "qwen2_5.json", "llama3_1": "Meta-Llama-3-8B-Instruct.json"}[name]
	question := map[string]any{
		"template":  oracletest.Template(b, name+".jinja"),
		"tokenizer": oracletest.Path(b, "chat", "tokens", "tokenizers", file),
		"traces":    oracletest.Path(b, "chat", "traces", "gpt-4o-airline-dev.json"),
		"pairs":     pairs,
		"header": map[string]string{
			"qwen2_5":  "<|im_start|>assistant\n",
			"llama3_1": "<|start_header_id|>assistant<|end_header_id|>\n\n",
		}[name],
		"end": map[string]string{"qwen2_5": "<|im_end|>", "llama3_1": "<|eot_id|>"}[name],
	}
	var seconds float64
	askPython(b, python, "bench.py", question, &seconds)
	return time.Duration(seconds * float64(time.Second))
}

// BenchmarkWorkers makes rows from the traces (spooled, as in a run), and whole data sets, alternately with one worker
// and with two, and reports how many times faster two are, going by the medians. What is written is synced: a folder in
// memory (TMPDIR) keeps the disk out of the figure.
//
// A run with one worker has a second core for everything that isn't the worker's job: garbage collection, reading and
// writing. Two cores that lost nothing would take half of its total processor time, which is x-at-most.
func BenchmarkWorkers(b *testing.B) {
	ctx := context.Background()
	defer debug.SetGCPercent(debug.SetGCPercent(240)) // as nat-go sets it while collating
	for _, work := range []struct {
		name string
		run  func(c *Collator, items []Item) error
	}{
		{"rows", func(c *Collator, items []Item) error {
			cut, err := newCut(ctx, c, one(items), startWorker(c, (*worker).prepared), nil, b.TempDir(), nil)
			if err == nil {
				cut.Close()
			}
			return err
		}},
		{"files", func(c *Collator, items []Item) error {
			_, err := c.Collate(ctx, one(items), b.TempDir(), b.TempDir(), nil)
			return err
		}},
	} {
		b.Run(work.name, func(b *testing.B) {
			tok := freshTokenizer(b, "qwen2_5.json")
			var items []Item
			for _, ex := range airline(b) {
				items = append(items, demonstrationOf(ex, nil))
			}
			var took [2][]time.Duration
			var used []time.Duration // by one worker's run, over all processors
			for b.Loop() {
				for i := range took {
					c, err := New(Config{
						Tokenizer:   tok,
						Template:    oracletest.Template(b, "qwen3.jinja"),
						MaxLength:   1 << 14,
						BatchTokens: 1 << 14,
						Workers:     i + 1,
					})
					if err != nil {
						b.Fatal(err)
					}
					tok.SetCacheBytes(tokenizer.DefaultCacheBytes)
					runtime.GC()
					start, before := time.Now(), processorTime(b)
					if err := work.run(c, items); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(start))
					if i == 0 {
						used = append(used, processorTime(b)-before)
					}
				}
			}
			for i := range took {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds())/1e3, fmt.Sprintf("ms-%d-workers", i+1))
			}
			slices.Sort(used)
			b.ReportMetric(float64(took[0][len(took[0])/2])/float64(took[1][len(took[1])/2]), "x-1-to-2")
			b.ReportMetric(2*float64(took[0][len(took[0])/2])/float64(used[len(used)/2]), "x-at-most")
		})
	}
}
