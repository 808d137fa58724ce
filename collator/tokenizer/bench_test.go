//go:build tokenizers && cgo

package tokenizer

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"
)

// conversations renders the oracle's agent traces in ChatML, as an approximation of rows.
func conversations(b *testing.B) (texts []string, bytes int64) {
	data, err := os.ReadFile(oracletest.Path(b, "chat", "traces", "gpt-4o-airline-dev.json"))
	if err != nil {
		b.Skip(err)
	}
	var runs []struct {
		Traj []struct {
			Role    string
			Content *string
		}
	}
	if err := json.Unmarshal(data, &runs); err != nil {
		b.Fatal(err)
	}
	for _, run := range runs {
		text := ""
		for _, m := range run.Traj {
			content := ""
			if m.Content != nil {
				content = *m.Content
			}
			text += "<|im_start|>" + m.Role + "\n" + content + "<|im_end|>\n"
		}
		texts = append(texts, text)
		bytes += int64(len(text))
	}
	return texts, bytes
}

func BenchmarkWhole(b *testing.B) {
	tok := load(b, "qwen2_5")
	texts, bytes := conversations(b)
	b.SetBytes(bytes)
	for b.Loop() {
		for _, text := range texts {
			if _, err := tok.encode(text, false, variant{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRows starts with an empty cache each time, so the cache saves only the segments that traces share.
func BenchmarkRows(b *testing.B) {
	tok := load(b, "qwen2_5")
	texts, bytes := conversations(b)
	b.SetBytes(bytes)
	var row Encoding
	for b.Loop() {
		tok.SetCacheBytes(DefaultCacheBytes)
		for _, text := range texts {
			row.Reset()
			if err := tok.EncodeRow(&row, text, everything(text)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(tok.cache.hits)/float64(tok.cache.hits+tok.cache.misses), "hits/segment")
}

// BenchmarkRowsAgain measures a row whose segments are all cached.
func BenchmarkRowsAgain(b *testing.B) {
	tok := load(b, "qwen2_5")
	texts, bytes := conversations(b)
	b.SetBytes(bytes)
	b.ReportAllocs()
	var row Encoding
	for b.Loop() {
		for _, text := range texts {
			row.Reset()
			if err := tok.EncodeRow(&row, text, everything(text)); err != nil {
				b.Fatal(err)
			}
		}
	}
}
