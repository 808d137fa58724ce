package detect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// headSize bounds the total size of a head's entries, and entrySize the size of each entry, in bytes.
const (
	headSize  = 1 << 20 // small, because every source examines the entire head
	entrySize = 32 << 20
)

// ErrEmpty is the error for an input without content, such as a file with only white space.
var ErrEmpty = errors.New("is empty: there is nothing to read")

// ReadHead reads the beginning of a file. If the input has content but doesn't begin like JSON, ReadHead returns a head
// without entries, and no error.
func ReadHead(ctx context.Context, path string) (*source.Head, error) {
	return readHead(ctx, path, "", source.HeadEntries)
}

// readHead reads up to the given number of entries from the beginning of a file, or of the list under one of its keys.
// If it can read the first bytes but no entry, it returns a head with only those bytes, together with the error. For an
// input without content, it returns only ErrEmpty.
func readHead(ctx context.Context, path, within string, most int) (*source.Head, error) {
	f, err := source.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	f.Within(within)
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
	switch err := entries(h, io.MultiReader(bytes.NewReader(h.Bytes), f), most); {
	case errors.Is(err, ErrEmpty):
		return nil, err
	case err != nil:
		return h, source.ReadError(path, err, 0)
	}
	return h, nil
}

// entries reads the first entries. An entry larger than entrySize, the largest of the sources' default limits, is
// skipped, because the sources drop and count it. For input that isn't JSON, it returns none; for damaged input, it
// returns the entries before the damage.
func entries(h *source.Head, in io.Reader, most int) error {
	r := json.NewReader(in, json.Auto, json.Limits{Size: entrySize})
	var tooLarge *json.SizeError
	for size := 0; len(h.Entries) < most && size < headSize; {
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
		case err != nil && len(h.Entries) > 0: // the source will report the error and its position
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

// Found describes how an input is read.
type Found struct {
	Source source.Factory
	source.Reading
}

// Choose asks the source with the given name, or all sources if the name is empty, how they would read an input.
func Choose(all []source.Factory, only string, h *source.Head) (*Found, error) {
	cols := h.Columns()
	if err := missing(h, cols); err != nil {
		return nil, err
	}
	if byColumns(h) {
		return nil, &UnknownError{
			Path: h.Path, What: inColumns + ". Write its rows as JSON lines: in pandas, " +
				`df.to_json("rows.jsonl", orient="records", lines=True)`, Brief: inColumns,
		}
	}
	var best []Found
	for _, f := range all {
		if f.Recognize == nil || only != "" && f.Type != only {
			continue
		}
		as := *h
		as.Given = f.Named(h.Given)
		r := f.Recognize(&as)
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
		if found := byPaths(all, only, h); found != nil {
			return found, nil
		}
		return nil, unknown(all, only, h, cols)
	case 1:
		if best[0].Problem != "" {
			return nil, &AmbiguousError{Path: h.Path, What: best[0].Problem}
		}
		return best[0].with(best[0].Source.Named(h.Given)), nil
	}
	names := lists.Map(best, func(b Found) string { return b.Source.Type })
	what := "input can be read as " + strings.Join(names, " and as ") + ": choose one with --source"
	return nil, &AmbiguousError{Path: h.Path, What: what}
}

const inColumns = "expected rows, got a table stored by column"

// byColumns reports whether an input is a table as written by pandas and other programs: a single object that contains,
// for each column, a list or an object of numbered cells.
func byColumns(h *source.Head) bool {
	if !h.Whole || len(h.Entries) != 1 || h.Entries[0].Kind() != json.Object {
		return false
	}
	if isSplit(h.Entries[0]) {
		return true
	}
	columns, cells := 0, -1
	for _, v := range h.Entries[0].Members() {
		n := 0
		for cell := range v.Elements() {
			if n++; cell.Kind() == json.Object || cell.Kind() == json.Array {
				return false
			}
		}
		for key, cell := range v.Members() {
			if number, _ := key.Text(); number != strconv.Itoa(n) || cell.Kind() == json.Object {
				return false
			}
			n++
		}
		if n < 2 || cells >= 0 && n != cells {
			return false
		}
		columns, cells = columns+1, n
	}
	return columns > 1
}

// isSplit reports whether an object is a table as pandas writes it with orient="split".
func isSplit(e json.Raw) bool {
	for row := range source.At(e, "data").Elements() {
		return source.At(e, "columns").Kind() == json.Array && row.Kind() == json.Array
	}
	return false
}

// missing returns an error if the user named a key that isn't in any entry.
func missing(h *source.Head, cols source.Columns) error {
	for _, setting := range slices.Sorted(maps.Keys(h.Given)) {
		key := h.Given[setting]
		if key == "" || len(h.Entries) == 0 || cols.Of(key) != nil || setting == entriesKey || h.HasWithin(key) ||
			h.Objects(h.Given["messages_key"]).Of(key) != nil {
			continue
		}
		what := fmt.Sprintf("no entry has the key %q, specified for %s; the keys are: %s",
			key, strings.TrimSuffix(setting, "_key"), keysNear(h, cols, key))
		return &UnknownError{Path: h.Path, What: what, Brief: what}
	}
	return nil
}

// keysNear lists the entries' keys or, if the key is a path into one of their objects, the paths into that object.
func keysNear(h *source.Head, cols source.Columns, key string) string {
	top, _, isPath := strings.Cut(key, ".")
	if !isPath || cols.Of(top) == nil {
		return cols.Names()
	}
	var paths []string
	for _, c := range h.Paths() {
		if strings.HasPrefix(c.Key, top+".") && len(paths) < maxPaths {
			paths = append(paths, c.Key)
		}
	}
	if paths == nil {
		return cols.Names()
	}
	return strings.Join(paths, ", ")
}

// maxPaths is the maximum number of paths listed in messages.
const maxPaths = 20

// quickEntries is the number of entries that Confirmed examines.
const quickEntries = 8

// Confirmed reports whether the first few entries of another file would be read in the same way. If it returns false,
// Recognize may still decide, based on the whole head, to read the file in that way. given holds the settings that the
// user specified.
func (f *Found) Confirmed(ctx context.Context, path string, given map[string]string) bool {
	if f.Source.Recognize == nil {
		return false
	}
	h, err := readHead(ctx, path, f.Settings[entriesKey], quickEntries)
	if err != nil || missing(h, h.Columns()) != nil {
		return false
	}
	h.Given = f.Source.Named(given)
	r := f.Source.Recognize(h)
	again := Found{f.Source, r}.with(h.Given)
	if key := f.Settings[entriesKey]; key != "" {
		again.Settings[entriesKey] = key
	}
	return r.Fit != source.NoFit && r.Problem == "" && maps.Equal(again.Settings, f.Settings)
}

// with returns a copy of f to which the user's settings have been added. Settings in f take precedence.
func (f Found) with(given map[string]string) *Found {
	settings := map[string]string{}
	maps.Copy(settings, given)
	maps.Copy(settings, f.Settings)
	f.Settings = settings
	return &f
}

// AmbiguousError reports that an input can be read in more than one way.
type AmbiguousError struct{ Path, What string }

func (e *AmbiguousError) Error() string { return e.Path + ": " + e.What }

// UnknownError reports that no source can read an input.
type UnknownError struct {
	Path, What string
	Brief      string // the problem in a few words

	// Like lists wanted meanings, each with a key that may have it: {{"prompt", "Frage"}, {"output", "Antwort"}}.
	Like [][2]string
}

func (e *UnknownError) Error() string { return "can't tell what " + e.Path + " is: " + e.What }

// wanted describes the shapes that sources read, for error messages.
const wanted = `  candidates   prompt, output, score       several scored answers to a prompt, one per line (id, turn_id)
               prompt, responses           all answers in a line: texts and scores, or objects {text, score}
  traces       messages (tools, reward)    conversations; also conversations of {from, value}
               prompt, response            demonstrations
               prompt, chosen, rejected    pairs
               prompt, first, second, choice   two answers and a label: left or right, 1 or 2, a or b
  workflow_output                          what NAT's ` + "`nat eval`" + ` writes
  published data sets: OASST, SHP, HelpSteer3, Chatbot Arena, SQuAD, xLAM, Capybara
--map takes ` + MapTakes + `: each is given a key, or a path such as data.answer`

// MapTakes lists, for help and error messages, the meanings that --map can give to keys.
const MapTakes = "prompt, output, score, chosen, rejected, first, second, choice, messages, role, content, system, context, " +
	"tools, id, task, turn, model"

func unknown(all []source.Factory, only string, h *source.Head, cols source.Columns) error {
	if len(h.Entries) == 0 {
		const none = "it is neither JSON, nor Parquet, nor CSV with a header row"
		if isPage(h.Bytes) {
			const page = "it is a web page, perhaps one that asks to sign in: fetch the file itself"
			return &UnknownError{h.Path, page, page, nil}
		}
		return &UnknownError{h.Path, none + "; " + types(all), none, nil}
	}
	what := ""
	if only != "" {
		what = "it doesn't look like what the source " + only + " reads; "
	}
	names := cols.Names()
	switch {
	case names != "":
		what += "its keys are: " + names
	case h.Entries[0].Kind() == json.Object:
		what += "its entries are objects without keys"
		return &UnknownError{h.Path, what + "; " + types(all), what, nil}
	default:
		what += "its entries are not objects"
	}
	if why := conversionHint(h); why != "" {
		what += ". " + why
		return &UnknownError{h.Path, what, what, nil}
	}
	if why := lacking(cols); why != "" {
		what += ". " + why
	}
	like := likely(h)
	return &UnknownError{h.Path, what + ". What is read:\n" + wanted + "\nSpecify the keys that mean the same, as in " +
		like.example() + like.doubts() + ", or " + types(all) + like.row(h), shortened(what), like.keys}
}

// isPage reports whether an input is a web page.
func isPage(b []byte) bool {
	begin := bytes.ToLower(bytes.TrimSpace(b[:min(len(b), 64)]))
	return bytes.HasPrefix(begin, []byte("<!doctype html")) || bytes.HasPrefix(begin, []byte("<html"))
}

// lacking describes the parts that are missing from an input with only some of the required parts.
func lacking(cols source.Columns) string {
	texts := 0
	for _, c := range cols.All() {
		if c.Present > 0 && c.Text() && c.Numeric < c.Present {
			texts++
		}
	}
	switch {
	case texts == 1 && cols.Of("text") != nil:
		return "Plain text, as for pretraining, has no answer to train on"
	case cols.Of("role") != nil && cols.Of("content") != nil:
		return "Each entry is a single message: put the messages of each conversation into a list under messages"
	case texts == 1 && cols.Of("prompt") != nil:
		return "There are prompts, but no answers to them"
	}
	return ""
}

// quoted returns a key quoted for the shell.
func quoted(key string) string {
	if strings.ContainsFunc(key, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	}) {
		return "'" + strings.ReplaceAll(key, "'", `'\''`) + "'"
	}
	return key
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
