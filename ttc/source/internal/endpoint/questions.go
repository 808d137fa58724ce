package endpoint

import (
	"context"
	"encoding/csv"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// entry is one entry of the data set.
type entry struct {
	raw      json.Raw // one JSON object
	question json.Raw
}

// eachEntry reads the data set in order.
func eachEntry(ctx context.Context, cfg *Config, do func(entry) error) error {
	f, err := source.OpenPlain(ctx, cfg.Dataset)
	if err != nil {
		return err
	}
	defer f.Close()
	name := strings.TrimSuffix(strings.TrimSuffix(cfg.Dataset, ".gz"), ".zst")
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".json":
		return eachJSON(cfg, f, json.ArrayOf, do)
	case ".jsonl", ".ndjson":
		return eachJSON(cfg, f, json.Values, do)
	case ".csv":
		return eachCSV(cfg, f, do)
	default:
		return source.Failure(cfg.Dataset, fmt.Sprintf("cannot read questions from a %q file", ext),
			"Convert it to .jsonl, .json or .csv", nil)
	}
}

func eachJSON(cfg *Config, f io.Reader, layout json.Layout, do func(entry) error) error {
	r := json.NewReader(f, layout, json.Limits{Size: cfg.MaxExample, Objects: cfg.MaxObjects})
	for row := int64(0); ; row++ {
		raw, offset, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return source.ReadError(cfg.Dataset, err, row)
		}
		q, ok := raw.Get(cfg.QuestionKey)
		if raw.Kind() != json.Object || !ok {
			what := fmt.Sprintf("entry %d has no %q", row, cfg.QuestionKey)
			return &source.Error{
				Path: cfg.Dataset, Offset: offset, Line: r.Line(), What: what, Help: "Set question_key",
			}
		}
		if err := do(entry{raw: append(json.Raw(nil), raw...), question: append(json.Raw(nil), q...)}); err != nil {
			return err
		}
	}
}

// eachCSV converts rows to objects; every value is text, unchanged.
func eachCSV(cfg *Config, f io.Reader, do func(entry) error) error {
	r := csv.NewReader(f)
	head, err := r.Read()
	if err != nil {
		return &source.Error{Path: cfg.Dataset, Offset: 0, What: "no header row: " + err.Error()}
	}
	column := -1
	for i, name := range head {
		head[i] = strings.TrimPrefix(name, "\ufeff")
		if head[i] == cfg.QuestionKey {
			column = i
		}
	}
	if column < 0 {
		what := fmt.Sprintf("missing column %q", cfg.QuestionKey)
		return &source.Error{Path: cfg.Dataset, Line: 1, What: what, Help: "Set question_key"}
	}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &source.Error{Path: cfg.Dataset, Offset: r.InputOffset(), What: err.Error()}
		}
		var raw compose.Object
		for i, v := range row {
			raw = raw.Member(quote(head[i]), quote(v))
		}
		if err := do(entry{raw: raw.End(), question: quote(row[column])}); err != nil {
			return err
		}
	}
}

func quote(s string) json.Raw {
	b, _ := stdjson.Marshal(s) // a string can always be encoded
	return b
}
