package rows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Split is the part of the data set a row belongs to.
type Split = batch.Split

// The parts of a data set.
const (
	Train      = batch.Train
	Validation = batch.Validation
)

// Options are the settings of row formats.
type Options struct {
	// FullHistory keeps message prompts as messages in customizer rows; otherwise the prompt is the text of the last
	// message (NAT's use_full_message_history).
	FullHistory bool `json:"use_full_message_history,omitempty"`
	// TextPrompt selects how trl, kto and nemo_rl rows hold a string prompt: as one user message, or as the text
	// itself.
	TextPrompt TextPrompt `json:"prompt_as"`
	// NAT writes customizer rows as NAT does: in ASCII, without a final newline, and without unknown message keys.
	NAT bool `json:"nat,omitempty"`
	// LastTurn writes one messages row per turn, for trainers that are configured to train on only the last turn.
	// Otherwise the rows are for trainers that train on all turns.
	LastTurn bool `json:"last_turn,omitempty"`
	// Stretch puts all turns up to the next context-only turn, and the messages between them, into the completion of a
	// single trl row, for trainers that mask everything but the assistant's text. Otherwise each turn gets its own row.
	Stretch bool `json:"stretch,omitempty"`
	// JSONColumns selects how tables hold values whose shape differs between rows.
	JSONColumns JSONColumns `json:"json_columns,omitzero"`
	// Template is the folder of the model whose chat template renders trl_prompts rows; Render renders with it.
	Template string          `json:"template,omitempty"`
	Render   *turns.Renderer `json:"-"`
}

// JSONColumns selects how a table holds tools, and messages that have more than a role and text.
type JSONColumns uint8

// The ways to hold values of differing shapes.
const (
	JSONValues JSONColumns = iota // values as Parquet's JSON type, which Hugging Face datasets has supported since 4.7
	JSONText                      // values as text that the reader must parse
)

var jsonColumns = []string{JSONValues: "json", JSONText: "text"}

// MarshalText returns the value used in YAML.
func (c JSONColumns) MarshalText() ([]byte, error) { return []byte(jsonColumns[c]), nil }

// UnmarshalText accepts the values used in YAML.
func (c *JSONColumns) UnmarshalText(b []byte) error { return choose(c, "json_columns", b, jsonColumns) }

// choose sets an option to the value with the given name.
func choose[T ~uint8](option *T, key string, name []byte, names []string) error {
	i := slices.Index(names, string(name))
	if i < 0 {
		return fmt.Errorf("invalid %s %q: expected %s", key, name, strings.Join(names, " or "))
	}
	*option = T(i)
	return nil
}

// TextPrompt selects how to write a string prompt for a trainer that reads messages.
type TextPrompt uint8

// The ways to write a string prompt.
const (
	UserMessage TextPrompt = iota // [{"role": "user", "content": prompt}]
	PlainText                     // the string itself; the trainer applies no chat template to it
)

var textPrompts = []string{UserMessage: "user_message", PlainText: "text"}

// MarshalText returns the value used in YAML.
func (t TextPrompt) MarshalText() ([]byte, error) { return []byte(textPrompts[t]), nil }

// UnmarshalText accepts the values used in YAML.
func (t *TextPrompt) UnmarshalText(b []byte) error { return choose(t, "prompt_as", b, textPrompts) }

// Format describes a row format.
type Format struct {
	Name     string
	Consumer string // program that reads the format
	Shape    string // outline of a row, for display
	Carries  []builders.Kind
	// Files returns the file name under dataset/<name>/. A .parquet file is a table; any other is JSON lines.
	Files   func(builders.Kind, Split) string
	Service bool // the consumer is a service that reads the JSON itself
	Prompts bool // a rollout's row is only its prompt, from which the trainer samples
	// TakesNull means that the consumer treats a key whose value is null as missing.
	TakesNull bool
	holds     string // the kinds of records in Carries, in words
	// encode appends the rows for a record, separated by calls to next. If records share rows, it appends the rows of
	// Encoder.records, of which r is the first.
	encode   func(e *Encoder, dst []byte, r *builders.Resolved) []byte
	read     func(*rowReader) *Row
	columns  func(builders.Kind, columns) parquet.Group // columns of tables
	together func(*builders.Resolved) (key string)      // returns Together's key; nil if records never share rows
	partly   func(Options, *builders.Resolved) bool     // see Partly; nil means false
	parts    []builders.Kind                            // see Whole
	lost     ledger.Reason                              // see LostTurns

	cannotMask    func(*chat.Message) string // why a trained turn's reasoning can't be context; nil if it never can
	several       bool                       // a side of a pair may have several messages
	textArguments bool                       // write tool call arguments as the sampled string, not as an object
}

// LastTurnOnly reports whether Options.LastTurn applies to the format.
func (f Format) LastTurnOnly() bool { return f.Lines() == messagesName }

// Whole reports whether a kind's rows, when read back, contain the model's complete input. Other rows can be verified
// only by encoding the record again.
func (f Format) Whole(k builders.Kind) bool { return !slices.Contains(f.parts, k) }

// LostTurns returns the reason why a turn of a record that the format can hold may have no row.
func (f Format) LostTurns() ledger.Reason { return cmp.Or(f.lost, AfterContextTurn) }

// Partly reports whether a record's rows hold only part of the model's input because the format can't hold the tools,
// or the messages before the last one.
func (f Format) Partly(o Options, r *builders.Resolved) bool {
	return f.partly != nil && f.partly(o, r)
}

// Together returns a key for records of a group that share rows. Records with the same key are passed to the encoder
// together. An empty key means that the record doesn't share rows.
func (f Format) Together(r *builders.Resolved) (key string) {
	if f.together == nil {
		return ""
	}
	return f.together(r)
}

// SharesRows reports whether records of this format may ever share rows.
func (f Format) SharesRows() bool { return f.together != nil }

// Formats lists the row formats: JSON lines, verl's tables, and each JSON lines format as a table.
func Formats() []Format {
	all := []Format{
		customizer, trl, chatRows, axolotl, msSwift, openAISFT, kto, privileged, nemoRL, nemoRLRanked, openAI, verl,
		atropos, nemoGym, trlPrompts,
	}
	for _, f := range all {
		if t, ok := f.Table(); ok {
			all = append(all, t)
		}
	}
	return all
}

// TableSuffix is the suffix of the name of a JSON lines format that is written as a table.
const TableSuffix = ".parquet"

// Table returns a JSON lines format as a Parquet table, which declares the type of every column; ok is false if the
// format is already a table. A reader of JSON lines has to guess the types from the first rows.
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

// Lines returns the JSON lines format that a table is a variant of, or the format itself if it isn't one.
func (f Format) Lines() string { return strings.TrimSuffix(f.Name, TableSuffix) }

// Declared reports whether the files of the format are tables with declared columns.
func (f Format) Declared() bool { return IsTable(f.Files(f.Carries[0], Train)) }

// Lookup finds a format by name.
func Lookup(name string) (Format, bool) {
	return lists.Find(Formats(), func(f Format) bool { return f.Name == name })
}

// Names lists the names of the formats.
func Names() string {
	return strings.Join(lists.Map(Formats(), func(f Format) string { return f.Name }), ", ")
}

// CannotCarry is the error for a record that a format can't express.
type CannotCarry struct{ Format, Why string }

func (e *CannotCarry) Error() string {
	return fmt.Sprintf("cannot represent the record in %s rows: %s", e.Format, e.Why)
}

// Encoder writes the rows of one format.
type Encoder struct {
	Format
	opts    Options
	split   Split // split of the rows being made
	records []*builders.Resolved
	err     error    // first reason why the format can't hold the current records
	rows    int      // number of rows made from the current records
	trimmed int      // number of messages omitted after the last turn
	omitted []string // see Omitted
	turns   Turns    // turn counts of the current record
	silent  []int    // see Silent
	masked  bool     // the reasoning of the record's trained turns is context
	one     [1]*builders.Resolved
	lone    bool // the rows contain half a surrogate pair
	escaped []escaped
	byText  map[*byte]int32 // index of a string in escaped, by the string's memory address
	arena   []byte
	tools   toolList
	back    []byte // scratch space for reading a string back
}

// NewEncoder returns an encoder for a format.
func NewEncoder(f Format, o Options) *Encoder {
	return &Encoder{Format: f, opts: o, byText: map[*byte]int32{}}
}

// Begin discards the strings cached for the previous group. Call it before the first row of each group,
// because strings are identified by their memory address.
func (e *Encoder) Begin() {
	clear(e.byText)
	clear(e.escaped) // otherwise a large group's strings would stay in memory
	e.escaped = e.escaped[:0]
	e.arena = e.arena[:0]
}

// Append appends a single record's rows, separated by newlines without a trailing one, and returns the number of rows,
// which is at least 1. On a *CannotCarry, dst is returned unchanged.
func (e *Encoder) Append(dst []byte, s Split, r *builders.Resolved) (out []byte, rows int, err error) {
	e.one[0] = r
	return e.AppendTogether(dst, s, e.one[:])
}

// AppendTogether is like Append, for records with the same key from Together.
func (e *Encoder) AppendTogether(dst []byte, s Split, rs []*builders.Resolved) (out []byte, rows int, err error) {
	e.split, e.records, e.rows, e.err, e.lone, e.trimmed = s, rs, 1, nil, false, 0
	e.turns, e.silent, e.omitted = Turns{}, e.silent[:0], e.omitted[:0]
	if !slices.Contains(e.Carries, rs[0].Record.Kind()) {
		e.refuse("the format holds only %s", e.holds)
		return dst, 0, e.err
	}
	out = e.encode(e, dst, rs[0])
	switch nat, prompt := e.opts.NAT && e.Name == customizer.Name, &rs[0].Prompt; {
	case nat:
	case !prompt.IsText() && len(prompt.Nodes) == 0:
		e.refuse("the prompt has no messages, and trainers look at its last one")
	case e.lone:
		e.refuse("a text contains half a surrogate pair, which makes most JSON readers reject the whole file")
	}
	if e.err != nil {
		e.turns = Turns{Lost: e.turns.Lost + e.turns.Carried}
		return dst, 0, e.err
	}
	return out, e.rows, nil
}

// next starts another row for the same records.
func (e *Encoder) next(dst []byte) []byte {
	e.rows++
	return append(dst, '\n')
}

// Omitted returns how many of the last record's messages its rows omit because they follow the last turn, and the
// distinct names of message members that rows can't hold, such as refusal or tool_calls.index.
func (e *Encoder) Omitted() (trimmed int, members []string) { return e.trimmed, e.omitted }

// FinalNewline reports whether the last row of a file ends in a newline.
func (e *Encoder) FinalNewline() bool { return !(e.opts.NAT && e.Name == customizer.Name) }

// refuse records the reason why the format can't hold the records, unless there is an earlier one. Anything
// appended afterwards is discarded.
func (e *Encoder) refuse(format string, a ...any) {
	if e.err == nil {
		e.err = &CannotCarry{Format: e.Name, Why: fmt.Sprintf(format, a...)}
	}
}

// refused calls refuse, and returns dst.
func (e *Encoder) refused(dst []byte, format string, a ...any) []byte {
	e.refuse(format, a...)
	return dst
}
