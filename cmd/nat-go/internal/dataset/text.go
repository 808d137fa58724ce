package dataset

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Text prints the report as text.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		kind := "error"
		if f.Warning {
			kind = "warning"
		}
		fmt.Fprintf(&b, "%s: %s %s: %s\n", f.Place(), kind, f.Code, f.Message)
		if f.Count > 0 {
			fmt.Fprintf(&b, "%s: %s %s: and %d more\n", f.File, kind, f.Code, f.Count)
		}
	}
	if len(r.Findings) > 0 {
		b.WriteByte('\n')
	}
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	for _, f := range r.Files {
		fmt.Fprintf(t, "%s\t%s\t{%s}\n", f.Path, ledger.Quantity(f.Rows, "row"), f.Shape)
	}
	_ = t.Flush() // can't fail, because it writes to memory
	for i := range r.Contexts {
		c := &r.Contexts[i]
		fmt.Fprintf(&b, "%s: %s", c.Format, ContextsInWords(&c.Contexts))
		if c.Checked {
			b.WriteString("; the rows agree")
		}
		b.WriteByte('\n')
	}
	if r.Batches > 0 {
		fmt.Fprintf(&b, "%s, %s, checked with the tokenizer\n", ledger.Quantity(r.Batches, "token batch"),
			ledger.Quantity(r.TokenRows, "row"))
	}
	switch {
	case r.Errors > 0:
		fmt.Fprintf(&b, "%s, %s; `nat-go explain CODE` says what to do\n", ledger.Quantity(r.Errors, "error"),
			ledger.Quantity(r.Warnings, "warning"))
	case r.Warnings > 0:
		fmt.Fprintf(&b, "sound, with %s\n", ledger.Quantity(r.Warnings, "warning"))
	default:
		b.WriteString("sound\n")
	}
	_, err := io.WriteString(terminal.For(w), b.String())
	return err
}

// Text prints the statistics as text. explain returns the page on a drop reason.
func (s *Stats) Text(w io.Writer, explain func(code string) (ledger.Code, bool)) error {
	t := statsText{Stats: s, width: terminal.Width(w)}
	t.counts()
	t.spreads()
	t.lengths()
	t.repeats()
	s.drops(&t.text, t.width, explain)
	_, err := io.WriteString(terminal.For(w), t.text.String())
	return err
}

// statsText builds the text that Text prints.
type statsText struct {
	*Stats
	text  strings.Builder
	width int
}

// words adds a line, wrapped to the width.
func (t *statsText) words(indent int, line string) {
	c := columns.Table{Indent: indent}
	c.Add(line)
	t.text.WriteString(c.Text(t.width))
}

// counts adds the number of records of each kind, and the number of prompts.
func (t *statsText) counts() {
	table := tabwriter.NewWriter(&t.text, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\ttrain\tvalidation\t\n", t.Of)
	for _, k := range t.Kinds {
		fmt.Fprintf(table, "%s\t%d\t%d\t\n", k.Kind, k.Train, k.Validation)
	}
	_ = table.Flush() // can't fail, because it writes to memory
	fmt.Fprintf(&t.text, "\n%s", ledger.Quantity(t.Prompts, "distinct prompt"))
	if t.Examples > 0 {
		fmt.Fprintf(&t.text, " of %s", ledger.Quantity(t.Examples, "example"))
	}
	t.text.WriteString("\n\n")
}

// spreads adds the table of margins, lengths and hint effects.
func (t *statsText) spreads() {
	table := tabwriter.NewWriter(&t.text, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\tmin\t10 %%\tmedian\t90 %%\tmax\tmean\t\n")
	row := func(name string, x spread) {
		fmt.Fprintf(table, "%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n",
			name, x.Min, x.P10, x.Median, x.P90, x.Max, x.Mean)
	}
	if t.Pairs != nil {
		for _, m := range t.Pairs.Margins {
			if m.NonFinite > 0 {
				fmt.Fprintf(&t.text, "%d margins of %s are NaN or infinite and omitted\n",
					m.NonFinite, terminal.Line(cmp.Or(m.Name, "score")))
			}
			row("margin of "+terminal.Line(cmp.Or(m.Name, "score")), m)
		}
		row("pairs "+t.Pairs.PerTurn.Name, t.Pairs.PerTurn)
	}
	for _, l := range t.Lengths {
		row("characters of "+l.Name, l)
	}
	for _, e := range t.Effects {
		row("hints' effect "+e.Name, e)
	}
	_ = table.Flush() // can't fail, because it writes to memory
}

// lengths adds a line that says how often the chosen side of a pair is longer.
func (t *statsText) lengths() {
	p := t.Pairs
	if p == nil {
		return
	}
	t.text.WriteByte('\n')
	t.words(0, fmt.Sprintf("chosen is longer in %.1f %% of the pairs, of equal length in %.1f %%; on average by %.1f characters",
		100*p.ChosenLonger, 100*p.SameLength, p.MeanGap))
	if p.ChosenLonger > 0.8 {
		t.words(2, "a model may learn to write more rather than better: check the scorer, or balance the lengths")
	}
}

// repeats adds lines on the work that the token batches require, the contexts of trained turns, repeated records,
// content on both sides of the split, and content that the chat template omits.
func (t *statsText) repeats() {
	if t.Batches != nil {
		if words := t.Batches.Stats.Forward.Words(t.Batches.Counts); words != "" {
			t.words(0, words)
		}
	}
	if t.Contexts != nil {
		t.text.WriteByte('\n')
		t.words(0, ContextsInWords(t.Contexts))
	}
	fmt.Fprintf(&t.text, "\nrepeated records: %d", t.Duplicates)
	if t.Pairs != nil {
		fmt.Fprintf(&t.text, "   contradictions: %d", t.Pairs.Contradict)
	}
	fmt.Fprintf(&t.text, "\non both sides of the split: %s, %s, %s\n", ledger.Quantity(t.Leakage.Prompts, "prompt"),
		ledger.Quantity(t.Leakage.Records, "record"), ledger.Quantity(t.Leakage.Examples, "example"))
	if t.Template != nil {
		t.text.WriteByte('\n')
		for _, l := range t.Template.lines() {
			t.words(0, l)
		}
	}
}

func (s *Stats) drops(b *strings.Builder, width int, explain func(code string) (ledger.Code, bool)) {
	if len(s.Dropped) == 0 {
		return
	}
	b.WriteString("\ndropped\n")
	t := &columns.Table{Indent: 2}
	for _, d := range s.Dropped {
		page, _ := explain(string(d.Reason))
		stage := string(d.Stage)
		if d.Format != "" {
			stage += " " + d.Format
		}
		t.Add(terminal.Line(stage), terminal.Line(string(d.Reason)), terminal.Line(ledger.Quantity(d.Count, d.Unit)),
			page.Text)
	}
	b.WriteString(t.Text(width))
}
