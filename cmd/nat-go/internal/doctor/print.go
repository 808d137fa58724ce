package doctor

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// shownRows is the maximum number of rows listed per difference.
const shownRows = 5

// Text writes the report as text.
func (r *Report) Text(w io.Writer, colour bool) error {
	var b bytes.Buffer
	if r.Versions != nil {
		fmt.Fprintf(&b, "%s %s (transformers %s, datasets %s, torch %s, Python %s)\n", strings.ToUpper(r.Trainer), r.Versions[r.Trainer],
			r.Versions["transformers"], r.Versions["datasets"], r.Versions["torch"], r.Versions["python"])
	}
	for i := range r.Inputs {
		r.Inputs[i].text(&b, strings.ToUpper(r.Trainer), colour)
	}
	if r.Serving != nil {
		r.Serving.text(&b)
	}
	_, err := terminal.For(w).Write(b.Bytes())
	return err
}

func (c *Compared) text(b *bytes.Buffer, trainer string, colour bool) {
	fmt.Fprintf(b, "%s  %s, %s\n", c.File, c.Method, quantity(c.Rows, "row"))
	if c.Same > 0 {
		fmt.Fprintf(b, "  same ids and masks in %s\n", quantity(c.Same, "row"))
	}
	for _, d := range c.Differences {
		fmt.Fprintf(b, "  %s  (%s)\n", d.words(trainer), rowList(d.Rows))
	}
	if len(c.Cut) > 0 {
		fmt.Fprintf(b, "  %s truncates %s: see max_length (--set max_length=N tries another)\n", trainer, rowList(c.Cut))
	}
	if len(c.LeftOut) > 0 {
		fmt.Fprintf(b, "  %s omits %s\n", trainer, rowList(c.LeftOut))
	}
	for _, f := range c.Refused {
		fmt.Fprintf(b, "  nat-go's collator rejects row %d: %s\n", f.Row, f.Why)
	}
	for _, n := range c.Notes {
		fmt.Fprintf(b, "  %s says: %q\n", trainer, n)
	}
	for _, s := range c.Row {
		s.text(b, trainer, colour)
	}
}

// words describes a difference.
func (d *difference) words(trainer string) string {
	switch n := quantity(d.Tokens, "token"); d.Kind {
	case trainerTrains:
		return fmt.Sprintf("%s trains on %s here that nat-go doesn't: %s", trainer, n, d.Class)
	case oursTrains:
		return fmt.Sprintf("nat-go trains on %s here that %s doesn't: %s", n, trainer, d.Class)
	case trainerOnly:
		trained := when(d.Trained, ", and trains on them")
		return fmt.Sprintf("%s puts %s here that nat-go's row lacks%s", trainer, n, trained)
	default:
		trained := when(d.Trained, ", trained by nat-go")
		return fmt.Sprintf("%s lacks %s of nat-go's row%s: %s", trainer, n, trained, d.Class)
	}
}

// when returns text if holds is true, and "" otherwise.
func when(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

func rowList(rows []int) string {
	names := lists.Map(rows[:min(len(rows), shownRows)], strconv.Itoa)
	if more := len(rows) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if len(rows) == 1 {
		return "row " + names[0]
	}
	return "rows " + strings.Join(names, ", ")
}

// text writes one side of a row token by token. Consecutive tokens share a line if they have the same class and the
// same roles in the trainer's row and in nat-go's.
func (s *sideTokens) text(b *bytes.Buffer, trainer string, colour bool) {
	fmt.Fprintf(b, "  %s token by token: positions in %s's and nat-go's row, roles in both, kind, text\n", s.Side, trainer)
	for at := 0; at < len(s.Tokens); {
		t := &s.Tokens[at]
		kind, _ := t.kind()
		var text strings.Builder
		for ; at < len(s.Tokens) && s.Tokens[at].like(t); at++ {
			text.WriteString(s.Tokens[at].Text)
		}
		line := fmt.Sprintf("  %1s %6s %6s  %-7s %-7s  %-16s %q", when(kind != "", "!"), indexText(t.Position[0]),
			indexText(t.Position[1]), t.Trainer, t.Ours, t.Class, text.String())
		if colour && kind != "" {
			line = terminal.Style("33", line)
		}
		b.WriteString(line + "\n")
	}
}

// like reports whether two tokens have the same class and the same roles.
func (t *token) like(other *token) bool {
	return t.Class == other.Class && t.Trainer == other.Trainer && t.Ours == other.Ours
}

func indexText(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func quantity(n int, unit string) string { return ledger.Quantity(int64(n), unit) }
