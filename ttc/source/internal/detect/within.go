package detect

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// entriesKey is the setting for sources that read entries from a list inside a single object.
const entriesKey = "entries_key"

// wrapping lists the keys under which files that consist of a single object store their entries.
var wrapping = []string{
	"data", "rows", "examples", "items", "records", "entries", "samples", "results", "train", "dataset",
	"conversations", "simulations",
}

// Recognize determines how a file is read: by its entries or, if no source recognises them, by the entries of a list
// inside a file that is one object. given holds the settings that the user specified; if entries_key is among them,
// only the list under that key is tried. A non-empty source name excludes all other sources.
func Recognize(
	ctx context.Context, all []source.Factory, only, path string, given map[string]string,
) (*Found, error) {
	if key := given[entriesKey]; key != "" {
		return within(ctx, all, only, path, key, given)
	}
	h, err := ReadHead(ctx, path)
	var found *Found
	if err == nil {
		h.Given = given
		found, err = Choose(all, only, h)
	}
	var unknown *UnknownError
	var large *json.SizeError
	if !errors.As(err, &unknown) && !errors.As(err, &large) || h == nil {
		return found, err
	}
	for _, key := range wrapping {
		if !wraps(h, key) {
			continue
		}
		if found, werr := within(ctx, all, only, path, key, given); werr == nil {
			return found, nil
		}
	}
	return nil, err
}

// wraps reports whether an input is one object that has a list under a key. If the object is too large for an entry,
// only its first bytes are examined, because it may be a pipe's entire content, which would be reread for each key.
func wraps(h *source.Head, key string) bool {
	switch len(h.Entries) {
	case 0:
		begun := source.File{Reader: bytes.NewReader(h.Bytes)}
		begun.Within(key)
		_, err := begun.Read(make([]byte, 1))
		return err == nil
	case 1:
		list, _ := h.Entries[0].Get(key)
		return list.Kind() == json.Array
	}
	return false
}

// within recognises the entries of the list under a key.
func within(
	ctx context.Context, all []source.Factory, only, path, key string, given map[string]string,
) (*Found, error) {
	h, err := readHead(ctx, path, key, source.HeadEntries)
	if err != nil {
		return nil, err
	}
	h.Given = given
	able := slices.DeleteFunc(slices.Clone(all), func(f source.Factory) bool { return !f.Wrapped })
	found, err := Choose(able, only, h)
	if err != nil {
		return nil, err
	}
	if found.Set(entriesKey, key); given[entriesKey] == "" {
		found.Guess("the entries are in the list under \"%s\"", key)
	}
	return found, nil
}
