package tokenview

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/terminal"
)

// Row is a row of a batch, token by token. It marshals to the output of `dataset show --tokens ROW --json`.
type Row struct {
	File    string     `json:"file"`
	Row     int        `json:"row"` // number of the row in the file, from 1
	Channel string     `json:"channel"`
	Meta    batch.Meta `json:"info"`
	Weight  float32    `json:"weight"` // weight in the loss of each of its trained tokens, or pairs
	Sides   []Side     `json:"sides"`
}

// Side is one side of a row.
type Side struct {
	Name   string  `json:"name,omitempty"` // chosen, rejected, student or teacher; empty if there is only one side
	Tokens []Token `json:"tokens"`
}

// Token is a token with its owner and the reason why it is or is not trained on.
type Token struct {
	Position int    `json:"position"`
	ID       int32  `json:"id"`
	Text     string `json:"text"`
	Message  int    `json:"message"` // index in the record's messages, or -1 if none
	Trained  bool   `json:"trained"`
	Why      string `json:"why"`

	// Bytes is the token's range in its side's text; nil if the decoded tokens, joined, differ from that text.
	Bytes   *[2]int  `json:"bytes,omitempty"`
	LogProb *float32 `json:"log_prob,omitempty"` // log-prob of the token when it was sampled, in nats, if known
	// JSD is the divergence between the predictions of the token with and without a hint, in nats, if measured.
	JSD *float32 `json:"jsd,omitempty"`
}

// ErrNoRow is the error for a reference to a row that doesn't exist.
var ErrNoRow = errors.New("no such row")

// ReadRow reads a row in a run folder. ref is "sft/train/00000.safetensors:3", or just a number, which counts all rows
// in index order. Rows are counted from 1.
func ReadRow(dir, ref string, tok *tokenizer.Tokenizer) (*Row, error) {
	name, number, ok := strings.Cut(ref, ":")
	if !ok {
		name, number = "", ref
	}
	row, err := strconv.Atoi(number)
	if row--; err != nil || row < 0 {
		return nil, fmt.Errorf("invalid row %q: expected sft/train/00000.safetensors:3 or a number, counted from 1", ref)
	}
	file := strings.TrimPrefix(filepath.ToSlash(name), "batches/")
	found, rows, err := open(dir, tok, func(l *batch.Line) bool {
		if file == "" && row >= l.Rows {
			row -= l.Rows
			return false
		}
		return file == "" || file == l.File
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("%w: %s", ErrNoRow, ref)
	case row >= len(rows):
		return nil, fmt.Errorf("%w: %s has %d rows", ErrNoRow, found.File, len(rows))
	}
	v, err := viewOf(found, row, rows[row], tok)
	if err != nil {
		return nil, err
	}
	first := 0 // index of the row's first site in the batch's list of sites
	for _, r := range rows[:row] {
		first += len(r.Meta.Sites)
	}
	return v, v.measured(filepath.Join(dir, "batches"), found, first)
}

// open reads the first batch in a run folder's index for which wanted returns true. The line is nil if there is none.
func open(dir string, tok *tokenizer.Tokenizer, wanted func(*batch.Line) bool) (*batch.Line, []*batch.Row, error) {
	dir = filepath.Join(dir, "batches")
	var found *batch.Line
	errFound := errors.New("found")
	err := batch.EachLine(filepath.Join(dir, batch.IndexName), func(l *batch.Line) error {
		if !wanted(l) {
			return nil
		}
		found = l
		return errFound
	})
	switch {
	case found == nil:
		return nil, nil, err
	case found.Tokenizer != tok.Fingerprint(): // the ids would decode to other tokens
		return nil, nil, fmt.Errorf("%s was made with tokenizer %s, not with %s", found.File, found.Tokenizer,
			tok.Fingerprint())
	}
	rows, err := batch.Read(dir, found)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", found.File, err)
	}
	return found, rows, nil
}

func viewOf(l *batch.Line, row int, r *batch.Row, tok *tokenizer.Tokenizer) (*Row, error) {
	d := &decoder{
		decode: func(ids []int32) (string, error) { return tok.Decode(ids, false) }, texts: map[int32]string{},
	}
	v := &Row{File: l.File, Row: row + 1, Channel: l.Channel, Meta: r.Meta, Weight: r.Weight}
	names := batch.Lookup(l.Channel).Sides
	for k := range r.Sides {
		s := &r.Sides[k]
		side := Side{Name: strings.TrimSuffix(names[min(k, len(names)-1)], "_")}
		var owners batch.Owners
		if k < len(r.Meta.Proof) {
			owners = r.Meta.Proof[k].Owners
		}
		logProbs := s.LogProbs
		for i, id := range s.IDs {
			text, err := d.token(id)
			if err != nil {
				return nil, err
			}
			t := Token{Position: i, ID: id, Text: text, Message: -1, Trained: s.InLoss(i)}
			for len(owners) > 0 && owners[0].End <= i {
				owners = owners[1:]
			}
			if len(owners) > 0 {
				t.Message, t.Why = owners[0].Message, owners[0].Why
			}
			if t.Trained && len(logProbs) > 0 {
				t.LogProb, logProbs = &logProbs[0], logProbs[1:]
			}
			side.Tokens = append(side.Tokens, t)
		}
		if err := side.place(s.IDs, d); err != nil {
			return nil, err
		}
		v.Sides = append(v.Sides, side)
	}
	return v, nil
}

// place records the position of each token in the side's text.
func (s *Side) place(ids []int32, d *decoder) error {
	whole, err := d.decode(ids)
	if err != nil {
		return err
	}
	spans, err := d.spans(ids, whole, d.textAlone)
	if err == nil && spans == nil {
		spans, err = d.spans(ids, whole, d.textAfter)
	}
	for i := range spans {
		s.Tokens[i].Bytes = &spans[i]
	}
	return err
}

// measured sets the divergences of a row's pairs. first is the index of the row's first site in the batch.
func (v *Row) measured(dir string, l *batch.Line, first int) error {
	for n, site := range v.Meta.Sites {
		jsd, err := divergences(dir, l, first+n)
		if err != nil {
			return err
		}
		if len(jsd) != site.Tokens() {
			continue
		}
		for _, run := range site.Pairs {
			for i := run.Start; i < run.End; i++ {
				v.Sides[0].Tokens[i].JSD, jsd = &jsd[0], jsd[1:]
			}
		}
	}
	return nil
}

// Look is the style in which a row or site is printed.
type Look struct {
	Colour bool
	Width  int  // columns; 0 means no wrapping
	Full   bool // print all lines of untrained runs, however long
}

// maxFoldedLines is the number of lines shown for an untrained run of tokens that isn't printed in full.
const maxFoldedLines = 4

// Print writes a row as text. It starts a new line each time the owner or the reason changes, and marks trained text
// with >. In colour, trained text is green, context, the template's text and tools are dim, and the rest is yellow.
func (v *Row) Print(w io.Writer, l Look) error {
	m := &v.Meta
	line := fmt.Sprintf("%s row %d: example %s, messages %v, ids %s, on_policy %s",
		v.File, v.Row, m.Example, m.Messages, m.IDs, m.OnPolicy)
	if len(m.Flags) > 0 {
		line += ", " + strings.Join(m.Flags, " ")
	}
	out := &printer{w: terminal.For(w), Look: l}
	out.words("", line)
	if said := taught(m.RL); said != "" {
		out.words("", "teacher: "+said)
	}
	for _, s := range v.Sides {
		if s.Name != "" {
			out.printf("\n%s:\n", s.Name)
		}
		out.side(&s)
	}
	return out.err
}

// Print writes a side as Row.Print does.
func (s *Side) Print(w io.Writer, l Look) error {
	out := &printer{w: terminal.For(w), Look: l}
	out.side(s)
	return out.err
}

// taught summarises a teacher's answer for a rollout, or gives the reason why there is none. It returns "" if no
// answer was requested.
func taught(s *batch.Scored) (said string) {
	switch {
	case s == nil:
		return ""
	case s.Teacher == nil && s.TeacherTopK != nil && *s.TeacherTopK < 0:
		return "none, as the task requests"
	case s.Teacher == nil:
		return ""
	case s.Teacher.Failed != "":
		return fmt.Sprintf("none (%s)", s.Teacher.Failed)
	}
	t := s.Teacher
	switch t.TopK {
	case 0:
		said = "the log-prob of each token"
	case 1:
		said = "the best token at each position"
	default:
		said = fmt.Sprintf("the best %d tokens at each position", t.TopK)
	}
	if t.LogProb != nil {
		said += fmt.Sprintf("; trained tokens %.3g nats on average", *t.LogProb)
	}
	var by []string
	for _, name := range slices.Sorted(maps.Keys(t.By)) {
		by = append(by, fmt.Sprintf("%s %.3g", name, t.By[name]))
	}
	if len(by) > 0 {
		said += " (" + strings.Join(by, ", ") + ")"
	}
	return said
}

func (p *printer) side(s *Side) {
	for i := 0; i < len(s.Tokens); {
		first := s.Tokens[i]
		from := i
		var texts []string
		for ; i < len(s.Tokens) && s.Tokens[i].Message == first.Message && s.Tokens[i].Why == first.Why; i++ {
			texts = append(texts, visible(s.Tokens[i].Text))
		}
		mark, colour, owner := " ", dim, "template"
		switch {
		case first.Trained:
			mark, colour = ">", green
		case first.Why != batch.Context && first.Why != batch.Markup && first.Why != batch.Tools:
			colour = yellow
		}
		if first.Message >= 0 {
			owner = "message " + strconv.Itoa(first.Message)
		}
		p.tokens(fmt.Sprintf("%s %5d-%-5d %-11s %-11s ", mark, from, i-1, owner, first.Why), texts, colour,
			first.Trained)
	}
}

// visible returns a token's text without terminal control characters, with | escaped.
func visible(s string) string {
	return terminal.Line(strings.ReplaceAll(s, "|", `\|`))
}
