package dataset

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

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
		fmt.Fprintf(t, "%s\t%d rows\t{%s}\n", f.Path, f.Rows, f.Shape)
	}
	_ = t.Flush() // into memory
	if r.Batches > 0 {
		fmt.Fprintf(&b, "%d token batches, %d rows, checked with the tokenizer\n", r.Batches, r.TokenRows)
	}
	switch {
	case r.Errors > 0:
		fmt.Fprintf(&b, "%d errors, %d warnings; `nat-go explain CODE` says what to do\n", r.Errors, r.Warnings)
	case r.Warnings > 0:
		fmt.Fprintf(&b, "sound, with %d warnings\n", r.Warnings)
	default:
		b.WriteString("sound\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Text prints statistics for people.
func (s *Stats) Text(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "%s\ttrain\tvalidation\t\n", s.Of)
	for _, k := range s.Kinds {
		fmt.Fprintf(t, "%s\t%d\t%d\t\n", k.Kind, k.Train, k.Validation)
	}
	_ = t.Flush() // into memory
	fmt.Fprintf(&b, "\n%d distinct prompts", s.Prompts)
	if s.Examples > 0 {
		fmt.Fprintf(&b, " of %d examples", s.Examples)
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
	_ = t.Flush() // into memory
	if p := s.Pairs; p != nil {
		fmt.Fprintf(&b, "\nchosen is longer in %.1f %% of the pairs, of equal length in %.1f %%; on average by %.1f characters\n",
			100*p.ChosenLonger, 100*p.SameLength, p.MeanGap)
		if p.ChosenLonger > 0.8 {
			b.WriteString("  a model may learn to write more rather than better: look at the scorer, or balance the lengths\n")
		}
	}
	fmt.Fprintf(&b, "\nrepeated records: %d", s.Duplicates)
	if s.Pairs != nil {
		fmt.Fprintf(&b, "   contradictions: %d", s.Pairs.Contradict)
	}
	fmt.Fprintf(&b, "\non both sides of the split: %d prompts, %d records, %d examples\n", s.Leakage.Prompts, s.Leakage.Records, s.Leakage.Examples)
	s.drops(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func scoreName(name string) string {
	if name == "" {
		return "score"
	}
	return printable(name)
}

// printable keeps what the data says from steering the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

func (s *Stats) drops(b *strings.Builder) {
	if len(s.Dropped) == 0 {
		return
	}
	b.WriteString("\ndropped\n")
	t := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	for _, d := range s.Dropped {
		page, _ := ledger.Explain(string(d.Reason))
		stage := string(d.Stage)
		if d.Format != "" {
			stage += " " + d.Format
		}
		fmt.Fprintf(t, "  %s\t%s\t%d %s\t%s\n", printable(stage), printable(string(d.Reason)), d.Count, printable(plural(d.Unit, d.Count)), page.Text)
	}
	_ = t.Flush() // into memory
}

func plural(unit string, n int64) string {
	if n == 1 {
		return unit
	}
	return unit + "s"
}
