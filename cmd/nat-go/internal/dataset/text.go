package dataset

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Text prints a report for people.
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
	_ = t.Flush() // into memory
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

// Text prints statistics for people.
func (s *Stats) Text(w io.Writer, explain func(code string) (ledger.Code, bool)) error {
	var b strings.Builder
	width := terminal.Width(w)
	words := func(indent, line string) {
		t := columns.Table{Indent: len(indent)}
		t.Add(line)
		b.WriteString(t.Text(width))
	}
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\ttrain\tvalidation\t\n", s.Of)
	for _, k := range s.Kinds {
		fmt.Fprintf(t, "%s\t%d\t%d\t\n", k.Kind, k.Train, k.Validation)
	}
	_ = t.Flush() // into memory
	fmt.Fprintf(&b, "\n%s", ledger.Quantity(s.Prompts, "distinct prompt"))
	if s.Examples > 0 {
		fmt.Fprintf(&b, " of %s", ledger.Quantity(s.Examples, "example"))
	}
	b.WriteString("\n\n")

	t = tabwriter.NewWriter(&b, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tmin\t10 %%\tmedian\t90 %%\tmax\tmean\t\n")
	row := func(name string, x Spread) {
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t%.4g\t\n", name, x.Min, x.P10, x.Median, x.P90, x.Max, x.Mean)
	}
	if s.Pairs != nil {
		for _, m := range s.Pairs.Margins {
			if m.NonFinite > 0 {
				fmt.Fprintf(&b, "%d margins of %s are NaN or infinite and left out\n", m.NonFinite, scoreName(m.Name))
			}
			row("margin of "+scoreName(m.Name), m)
		}
		row("pairs "+s.Pairs.PerTurn.Name, s.Pairs.PerTurn)
	}
	for _, l := range s.Lengths {
		row("characters of "+l.Name, l)
	}
	for _, e := range s.Effects {
		row("hints' effect "+e.Name, e)
	}
	_ = t.Flush() // into memory
	if p := s.Pairs; p != nil {
		b.WriteByte('\n')
		words("", fmt.Sprintf("chosen is longer in %.1f %% of the pairs, of equal length in %.1f %%; on average by %.1f characters",
			100*p.ChosenLonger, 100*p.SameLength, p.MeanGap))
		if p.ChosenLonger > 0.8 {
			words("  ", "a model may learn to write more rather than better: look at the scorer, or balance the lengths")
		}
	}
	fmt.Fprintf(&b, "\nrepeated records: %d", s.Duplicates)
	if s.Pairs != nil {
		fmt.Fprintf(&b, "   contradictions: %d", s.Pairs.Contradict)
	}
	fmt.Fprintf(&b, "\non both sides of the split: %s, %s, %s\n", ledger.Quantity(s.Leakage.Prompts, "prompt"),
		ledger.Quantity(s.Leakage.Records, "record"), ledger.Quantity(s.Leakage.Examples, "example"))
	if s.Template != nil {
		b.WriteByte('\n')
		for _, l := range s.Template.lines() {
			words("", l)
		}
	}
	s.drops(&b, width, explain)
	_, err := io.WriteString(terminal.For(w), b.String())
	return err
}

func scoreName(name string) string {
	if name == "" {
		return "score"
	}
	return terminal.Line(name)
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
