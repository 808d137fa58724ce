//go:build tokenizers

package collator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tokenizertest"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
)

var museum = filepath.Join("..", "examples", "referee")

// exhibits reads the museum of public mask bugs.
func exhibits(t *testing.T) (file struct {
	Templates map[string]struct{ Text string }
	Exhibits  []struct {
		Name, Link, Template string
		Package              string // that had the bug, where the package index has it
		Metaspace            bool   // a tokenizer like SentencePiece's
		Messages             []any
		Rows                 []string // what ⟦ ⟧ encloses is trained
	}
},
) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(museum, "museum.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestMuseum checks that for each public bug of trained-token masks in the museum, the batches have the rows that are
// right: ids of the whole render, and exactly what the model wrote is trained.
func TestMuseum(t *testing.T) {
	file := exhibits(t)
	for _, e := range file.Exhibits {
		t.Run(e.Name, func(t *testing.T) {
			base := tokenizertest.Toy()
			if e.Metaspace {
				base = sentencePiece(t)
			}
			template := file.Templates[e.Template].Text
			family, err := tokenizertest.Family(base, template)
			if err != nil {
				t.Fatal(err)
			}
			cfg := toyConfig(t, "chatml.jinja")
			cfg.Template = template
			if cfg.Tokenizer, err = tokenizer.New(family); err != nil {
				t.Fatal(err)
			}
			if e.Metaspace { // the trait that the bug needs
				alone, err := cfg.Tokenizer.Encode("The sea.", tokenizer.Options{})
				if err != nil {
					t.Fatal(err)
				}
				want(t, alone.IDs[0], int32(1))
			}
			c := collate(t, cfg, one([]Item{demonstration("x", nodes(parsedMessages(t, e.Messages)))}))
			var got []string
			for _, r := range c.rows {
				got = append(got, marked(t, cfg.Tokenizer, &r.Sides[0]))
			}
			slices.Sort(got)
			slices.Sort(e.Rows)
			want(t, strings.Join(got, "---\n"), strings.Join(e.Rows, "---\n"))
		})
	}
}

// TestMuseumPage checks that the page has each exhibit, and shows those whose package had the bug: at least six.
func TestMuseumPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(museum, "MUSEUM.md"))
	if err != nil {
		t.Fatal(err)
	}
	all, packages := exhibits(t).Exhibits, 0
	for _, e := range all {
		if e.Package != "" {
			packages++
		}
		if !strings.Contains(string(page), "["+e.Name+"]("+e.Link+")") {
			t.Errorf("MUSEUM.md lacks %s: run examples/referee/museum.py", e.Name)
		}
	}
	if shown := strings.Count(string(page), "\nThat version trains"); len(all) < 20 || shown < max(6, packages) {
		t.Errorf("%d exhibits, of which %d have a package and %d are shown", len(all), packages, shown)
	}
}

func parsedMessages(t *testing.T, messages []any) []chat.Message {
	t.Helper()
	text, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := njson.Parse(text, njson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ms, err := chat.ParseMessages(raw)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// marked returns a row's text with its trained parts enclosed in ⟦ ⟧. The row's ids must equal the ids of the whole
// text.
func marked(t *testing.T, tok *tokenizer.Tokenizer, s *batch.Side) string {
	t.Helper()
	text := func(ids []int32) string {
		out, err := tok.Decode(ids, false)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	whole, err := tok.Encode(text(s.IDs), tokenizer.Options{ParseSpecial: true})
	if err != nil {
		t.Fatal(err)
	}
	want(t, s.IDs, whole.IDs)
	var out strings.Builder
	at := 0
	for _, r := range s.Trained {
		out.WriteString(text(s.IDs[at:r.Start]) + "⟦" + text(s.IDs[r.Start:r.End]) + "⟧")
		at = r.End
	}
	return out.String() + text(s.IDs[at:])
}

// sentencePiece is a tokenizer of characters that begins a text with a space, as SentencePiece's do.
func sentencePiece(t *testing.T) []byte {
	t.Helper()
	vocab := map[string]int{"<unk>": 0, "▁": 1, "\n": 2}
	for r := rune('!'); r <= '~'; r++ {
		vocab[string(r)] = len(vocab)
	}
	space := map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}
	data, err := json.Marshal(map[string]any{
		"version": "1.0", "added_tokens": []any{}, "normalizer": nil, "pre_tokenizer": space, "post_processor": nil,
		"decoder": space,
		"model":   map[string]any{"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": []string{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
