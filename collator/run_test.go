//go:build tokenizers

package collator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/internal/oracletest"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	njson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// itemOf makes a demonstration from a conversation of the mask oracle.
func itemOf(t *testing.T, m *oracletest.Mask, i int) Item {
	t.Helper()
	raw, err := njson.Parse(m.Messages, njson.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ms, err := chat.ParseMessages(raw)
	if err != nil {
		t.Fatal(err)
	}
	it := demonstration(fmt.Sprint(i), ttc.Chain(ms, ttc.Yes).Nodes)
	var tools []json.RawMessage
	if err := json.Unmarshal(m.Tools, &tools); err != nil && string(m.Tools) != "" {
		t.Fatal(err)
	}
	for _, x := range tools {
		tool, err := chat.ParseTool(njson.Raw(x))
		if err != nil {
			t.Fatal(err)
		}
		it.Record.Origin.Tools = append(it.Record.Origin.Tools, tool)
	}
	return it
}

// TestStraddlesAndRewritesInARun checks that answers whose first token would merge with the header are encoded
// separately from it, one row per turn, and that conversations whose past the template rewrites make a row per turn.
func TestStraddlesAndRewritesInARun(t *testing.T) {
	for file, check := range map[string]func(c *collated, masks []oracletest.Mask){
		"qwen2_5.straddle.jsonl": func(c *collated, masks []oracletest.Mask) {
			want(t, c.reasons("record")+c.reasons("turn"), "empty_turn 1")
			turns := 0
			for _, m := range masks {
				turns += strings.Count(string(m.Messages), `"role": "assistant"`)
			}
			want(t, len(c.rows), turns-1)
			for _, r := range c.rows {
				want(t,
					strings.Contains(textOf(t, Config{Tokenizer: oracleTokenizer(t, masks[0].Tokenizer)},
						r.Sides[0].IDs[:r.Sides[0].Trained[0].Start]), "<|im_start|>assistant"), true)
			}
		},
		"qwen3.unstable.jsonl": func(c *collated, masks []oracletest.Mask) {
			rows := map[int64]int{}
			for _, r := range c.rows {
				rows[r.Meta.Ordinal]++
			}
			for i := range masks {
				turns := strings.Count(string(masks[i].Messages), `"role": "assistant"`)
				if len(masks[i].Unstable) == 0 {
					turns = 1
				}
				if rows[int64(i)] != turns {
					t.Errorf("%s: %d rows, want %d", masks[i].Conversation, rows[int64(i)], turns)
				}
			}
		},
	} {
		t.Run(file, func(t *testing.T) {
			masks := oracletest.Masks(t, file)
			var items []Item
			for i := range masks {
				items = append(items, itemOf(t, &masks[i], i))
			}
			vars := &pyvalue.Dict{}
			c := collate(t, Config{
				Tokenizer:    oracleTokenizer(t, masks[0].Tokenizer),
				Template:     oracletest.Template(t, masks[0].Template),
				TemplateVars: vars,
			}, one(items))
			check(c, masks)
		})
	}
}

// TestStopsCleanly checks that a source error, a cancelled context, or a full or missing folder ends Collate with an
// error and leaves behind no goroutine, index or temporary file.
func TestStopsCleanly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	cfg := toyConfig(t, "chatml.jinja")
	cfg.Workers = 3
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the log is damaged")
	for name, stop := range map[string]struct {
		want   error
		source func(cancel func(), yield func([]Item, error) bool)
	}{
		"the source fails": {broken, func(_ func(), yield func([]Item, error) bool) {
			for i := range 50 {
				if !yield([]Item{demonstration(fmt.Sprint(i), nodes(bugHunt))}, nil) {
					return
				}
			}
			yield(nil, broken)
		}},
		"cancelled": {context.Canceled, func(cancel func(), yield func([]Item, error) bool) {
			for i := range 50 {
				if i == 20 {
					cancel()
				}
				if !yield([]Item{demonstration(fmt.Sprint(i), nodes(bugHunt))}, nil) {
					return
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			dir, scratch := t.TempDir(), t.TempDir()
			source := func(yield func([]Item, error) bool) { stop.source(cancel, yield) }
			if _, err := c.Collate(ctx, source, dir, scratch, nil); !errors.Is(err, stop.want) {
				t.Errorf("error %v, want %v", err, stop.want)
			}
			if left, _ := os.ReadDir(scratch); len(left) > 0 {
				t.Errorf("%s: %v were left behind", name, left)
			}
			if left := files(t, dir); len(left) > 0 {
				t.Errorf("%s: %d files were left behind", name, len(left))
			}
		})
	}
	if _, err := c.Collate(context.Background(), one(nil), t.TempDir(), "/no/such/folder", nil); err == nil {
		t.Error("no error for a missing folder")
	}
}
