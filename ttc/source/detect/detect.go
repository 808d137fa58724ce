package detect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source"
)

// headSize bounds the entries of a head, and each of them, in bytes.
const (
	headSize  = 1 << 20 // every source looks at all of it
	entrySize = 32 << 20
)

// ErrEmpty is the error of an input that has nothing in it.
var ErrEmpty = errors.New("is empty: there is nothing to read")

// ReadHead reads the beginning of a file. An input that isn't JSON has no entries, which is no error.
func ReadHead(ctx context.Context, path string) (*source.Head, error) {
	f, err := source.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := &source.Head{Path: path}
	h.Bytes = make([]byte, source.HeadBytes)
	n, err := io.ReadFull(f, h.Bytes)
	h.Bytes = h.Bytes[:n]
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, source.ReadError(path, err, 0)
	}
	if len(bytes.TrimSpace(h.Bytes)) == 0 {
		return nil, fmt.Errorf("%s %w", path, ErrEmpty)
	}
	if err := entries(h, io.MultiReader(bytes.NewReader(h.Bytes), f)); errors.Is(err, ErrEmpty) {
		return nil, err
	} else if err != nil {
		return nil, source.ReadError(path, err, 0)
	}
	return h, nil
}

// entries reads the first entries. One beyond what sources take by default is passed over: they drop and count it. An
// input that isn't JSON from its first value on has none; one that breaks off later, those before.
func entries(h *source.Head, in io.Reader) error {
	r := json.NewReader(in, json.Auto, json.Limits{Size: entrySize})
	var tooLarge *json.SizeError
	for size := 0; len(h.Entries) < source.HeadEntries && size < headSize; {
		raw, _, err := r.Next()
		var syntax *json.SyntaxError
		switch {
		case errors.As(err, &tooLarge):
			continue
		case errors.Is(err, io.EOF):
			h.Whole = true
			switch {
			case len(h.Entries) > 0:
				return nil
			case tooLarge != nil:
				return tooLarge
			}
			return fmt.Errorf("%s %w", h.Path, ErrEmpty)
		case errors.As(err, &syntax) && len(h.Entries) == 0 && !looksLikeJSON(h.Bytes):
			return nil
		case err != nil && len(h.Entries) > 0: // the source will say so, with its place
			return nil
		case err != nil:
			return err
		}
		h.Entries = append(h.Entries, bytes.Clone(raw))
		size += len(raw)
	}
	return nil
}

func looksLikeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, "\xEF\xBB\xBF \t\r\n")
	return len(b) > 0 && (b[0] == '{' || b[0] == '[')
}

// Found is how an input is read.
type Found struct {
	Source source.Factory
	source.Reading
}

// Choose asks the sources how they would read an input. only names the one that was asked for; empty: any.
func Choose(all []source.Factory, only string, h *source.Head) (*Found, error) {
	cols := h.Columns()
	for _, setting := range slices.Sorted(maps.Keys(h.Given)) {
		if key := h.Given[setting]; key != "" && len(h.Entries) > 0 && cols.Of(key) == nil {
			what := fmt.Sprintf("no entry has the key %q that %s is to be read from; the keys are: %s",
				key, strings.TrimSuffix(setting, "_key"), cols.Names())
			return nil, &UnknownError{h.Path, what}
		}
	}
	var best []Found
	for _, f := range all {
		if f.Recognize == nil || only != "" && f.Type != only {
			continue
		}
		r := f.Recognize(h)
		if r.Fit == source.NoFit || len(best) > 0 && r.Fit < best[0].Fit {
			continue
		}
		if len(best) > 0 && r.Fit > best[0].Fit {
			best = best[:0]
		}
		best = append(best, Found{f, r})
	}
	switch len(best) {
	case 0:
		return nil, unknown(all, only, h, cols)
	case 1:
		if best[0].Problem != "" {
			return nil, &AmbiguousError{Path: h.Path, What: best[0].Problem}
		}
		return best[0].with(h.Given), nil
	}
	var names []string
	for _, b := range best {
		names = append(names, b.Source.Type)
	}
	what := "it can be read as " + strings.Join(names, " and as ") + ": say which with --source"
	return nil, &AmbiguousError{Path: h.Path, What: what}
}

// with adds the settings that a person named.
func (f Found) with(given map[string]string) *Found {
	settings := maps.Clone(given)
	if settings == nil {
		settings = map[string]string{}
	}
	maps.Copy(settings, f.Settings)
	f.Settings = settings
	return &f
}

// AmbiguousError says that an input can be read in more than one way.
type AmbiguousError struct{ Path, What string }

func (e *AmbiguousError) Error() string { return e.Path + ": " + e.What }

// UnknownError says that no source can read an input.
type UnknownError struct{ Path, What string }

func (e *UnknownError) Error() string { return "can't tell what " + e.Path + " is: " + e.What }

// wanted are the shapes that sources read, for a person.
const wanted = `  candidates   prompt, output, score       several scored answers to a prompt, one per line (id, turn_id)
  traces       messages (tools, reward)    conversations; also conversations of {from, value}
               prompt, response            demonstrations
               prompt, chosen, rejected    pairs
  workflow_output                          what NAT's ` + "`nat eval`" + ` writes`

func unknown(all []source.Factory, only string, h *source.Head, cols source.Columns) error {
	if len(h.Entries) == 0 {
		return &UnknownError{h.Path, "it is neither JSON, nor Parquet, nor CSV with a row of names; " + types(all)}
	}
	what := ""
	if only != "" {
		what = "it doesn't look like what the source " + only + " reads; "
	}
	keys := "its entries are not objects"
	if names := cols.Names(); names != "" {
		keys = "its keys are: " + names
	}
	return &UnknownError{h.Path, what + keys + ". What is read:\n" + wanted +
		"\nName the keys that mean the same, as in --map output=KEY --map score=KEY, or " + types(all)}
}

func types(all []source.Factory) string {
	var names []string
	for _, f := range all {
		if f.Open != nil {
			names = append(names, f.Type)
		}
	}
	return "say how to read it with --source, one of " + strings.Join(names, ", ")
}
