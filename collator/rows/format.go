package rows

import (
	"fmt"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
)

// Split is the side of the split a row is on.
type Split uint8

// The sides of a split.
const (
	Train Split = iota
	Validation
)

func (s Split) String() string {
	if s == Validation {
		return "validation"
	}
	return "train"
}

// Options are the settings of row formats.
type Options struct {
	// FullHistory keeps message prompts as messages in customizer rows; otherwise the prompt is the last message's text
	// (NAT's use_full_message_history).
	FullHistory bool `json:"use_full_message_history,omitempty"`
	// TextPrompt says what trl rows make of a string prompt: one user message, or the text itself.
	TextPrompt TextPrompt `json:"prompt_as"`
	// NAT writes customizer rows as NAT does, bytes and all: ASCII, no final newline, keys of messages it doesn't know
	// left out without a word.
	NAT bool `json:"nat,omitempty"`
	// LastTurn writes messages rows for a trainer that is told to train the last turn alone; else it trains all.
	LastTurn bool `json:"last_turn,omitempty"`
	// JSONColumns says how tables hold what is not alike in every row.
	JSONColumns JSONColumns `json:"json_columns,omitzero"`
}

// JSONColumns says how a table holds messages with more than a role and a text, and tools.
type JSONColumns uint8

// The ways to hold values that are not alike.
const (
	JSONValues JSONColumns = iota // of Parquet's type JSON, which Hugging Face datasets reads from 4.7 on
	JSONText                      // as texts, which their reader has to parse
)

// MarshalText writes it as in YAML.
func (c JSONColumns) MarshalText() ([]byte, error) {
	if c == JSONText {
		return []byte("text"), nil
	}
	return []byte("json"), nil
}

// UnmarshalText reads it as in YAML.
func (c *JSONColumns) UnmarshalText(b []byte) error {
	switch string(b) {
	case "json":
		*c = JSONValues
	case "text":
		*c = JSONText
	default:
		return fmt.Errorf("json_columns is %q; it can be json or text", b)
	}
	return nil
}

// TextPrompt says how a string prompt is written for a trainer that reads messages.
type TextPrompt uint8

// The ways to write a string prompt.
const (
	UserMessage TextPrompt = iota // [{"role": "user", "content": prompt}]
	PlainText                     // the string; the trainer applies no chat template to it
)

// MarshalText writes it as in YAML.
func (t TextPrompt) MarshalText() ([]byte, error) {
	if t == PlainText {
		return []byte("text"), nil
	}
	return []byte("user_message"), nil
}

// UnmarshalText reads it as in YAML.
func (t *TextPrompt) UnmarshalText(b []byte) error {
	switch string(b) {
	case "user_message":
		*t = UserMessage
	case "text":
		*t = PlainText
	default:
		return fmt.Errorf("prompt_as is %q; it can be user_message or text", b)
	}
	return nil
}

// Format describes a row format.
type Format struct {
	Name     string
	Consumer string // who reads it
	Shape    string // one row, for people
	Carries  []builders.Kind
	// File name under dataset/<name>/; *.parquet is a table, all else JSON lines.
	Files    func(builders.Kind, Split) string
	Service  bool // the consumer is a service, which reads JSON itself
	open     func(*Encoder)
	read     func(*rowReader) *Row
	columns  func(builders.Kind, columns) parquet.Group // of tables
	together func(*builders.Resolved) (key string)      // see Together; nil: every record stands alone
}

// Together names the records of a group that share rows, in formats where some do: those with the same key are given to
// the encoder at once. An empty key: the record stands alone.
func (f Format) Together(r *builders.Resolved) (key string) {
	if f.together == nil {
		return ""
	}
	return f.together(r)
}

// SharesRows says whether records of this format may share rows at all.
func (f Format) SharesRows() bool { return f.together != nil }

// Formats lists the row formats: those of lines, verl's tables, and each of lines as a table.
func Formats() []Format {
	all := []Format{customizer, trl, chatRows, kto, nemoRL, nemoRLRanked, openAI, verl, atropos}
	for _, f := range all {
		if t, ok := f.Table(); ok {
			all = append(all, t)
		}
	}
	return all
}

// TableSuffix ends the name of a format of lines as a table.
const TableSuffix = ".parquet"

// Table is a format of lines as a Parquet table, which says of every column what it holds; ok is false where the format
// has tables itself. A reader of JSON lines has to guess that from the first of them.
func (f Format) Table() (table Format, ok bool) {
	if f.Declared() {
		return Format{}, false
	}
	t := f
	t.Name, t.Shape = f.Name+TableSuffix, "Parquet: "+f.Shape
	t.Files = func(k builders.Kind, s Split) string {
		return strings.TrimSuffix(f.Files(k, s), ".jsonl") + TableSuffix
	}
	t.read = func(r *rowReader) *Row {
		r.parsed = true
		return f.read(r)
	}
	return t, true
}

// Lines is the format of lines that a table is one of; the format itself where it is none.
func (f Format) Lines() string { return strings.TrimSuffix(f.Name, TableSuffix) }

// Declared says whether the files of the format are tables, whose columns are declared.
func (f Format) Declared() bool { return IsTable(f.Files(f.Carries[0], Train)) }

// Lookup finds a format.
func Lookup(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Names lists the names of the formats.
func Names() string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}

// CannotCarry is the error of a record that a format has no place for.
type CannotCarry struct{ Format, Why string }

func (e *CannotCarry) Error() string {
	return fmt.Sprintf("%s rows can't carry it: %s", e.Format, e.Why)
}

// encode appends the rows that records make together, with next between them.
type encode func(e *Encoder, dst []byte, rs []*builders.Resolved) ([]byte, error)

// each makes an encode of what appends the rows of a record that stands alone.
func each(f func(e *Encoder, dst []byte, r *builders.Resolved) ([]byte, error)) encode {
	return func(e *Encoder, dst []byte, rs []*builders.Resolved) ([]byte, error) { return f(e, dst, rs[0]) }
}

// Encoder writes the rows of one format.
type Encoder struct {
	Format
	opts    Options
	encode  encode
	split   Split // of the rows being made
	rows    int   // made of the records at hand
	trimmed int   // messages behind the last turn that they were made without
	one     [1]*builders.Resolved
	lone    bool // they have half a surrogate pair
	escaped map[*byte]escaped
	arena   []byte
	back    []byte // scratch: a text read back

	several       bool // a side of a pair may be several messages
	textArguments bool // arguments of tool calls are written as sampled, in a string; otherwise as an object
}

// NewEncoder returns an encoder of a format.
func NewEncoder(f Format, o Options) *Encoder {
	e := &Encoder{Format: f, opts: o, escaped: map[*byte]escaped{}}
	f.open(e)
	return e
}

// Begin forgets the texts of the last group. Call it before the first row of each group: texts are known by their place
// in memory.
func (e *Encoder) Begin() {
	clear(e.escaped)
	e.arena = e.arena[:0]
}

// Append appends the rows of a record that stands alone, one or more, with newlines between them and none at the end,
// and says how many there are. On a *CannotCarry, dst is returned as it was.
func (e *Encoder) Append(dst []byte, s Split, r *builders.Resolved) (out []byte, rows int, err error) {
	e.one[0] = r
	return e.AppendTogether(dst, s, e.one[:])
}

// AppendTogether is Append for records that Together gave the same key.
func (e *Encoder) AppendTogether(dst []byte, s Split, rs []*builders.Resolved) (out []byte, rows int, err error) {
	n := len(dst)
	e.split, e.rows, e.lone, e.trimmed = s, 1, false, 0
	out, err = e.encode(e, dst, rs)
	if err == nil && !(e.opts.NAT && e.Name == customizer.Name) && e.lone {
		err = e.refuse("a text has half of a surrogate pair, for which most readers of JSON refuse the whole file")
	}
	if err != nil {
		return dst[:n], 0, err
	}
	return out, e.rows, nil
}

// next begins another row of the same records.
func (e *Encoder) next(dst []byte) []byte {
	e.rows++
	return append(dst, '\n')
}

// Trimmed is how many messages behind its last turn the last record was written without.
func (e *Encoder) Trimmed() int { return e.trimmed }

// FinalNewline reports whether the last row of a file ends in a newline.
func (e *Encoder) FinalNewline() bool { return !(e.opts.NAT && e.Name == customizer.Name) }

func (e *Encoder) refuse(format string, a ...any) error {
	return &CannotCarry{Format: e.Name, Why: fmt.Sprintf(format, a...)}
}
