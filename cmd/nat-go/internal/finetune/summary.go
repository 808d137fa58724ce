package finetune

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/files"
	"github.com/nat-go/nat-go/collator/teacher"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Look configures how a summary is printed.
type Look struct {
	Width int // columns of the terminal; 0 means that it isn't a terminal, and lines aren't wrapped
	Color bool
}

func (l Look) style(style, text string) string {
	if !l.Color {
		return text
	}
	return terminal.Style(style, text)
}

// table returns an empty table whose first column has the given style.
func (l Look) table(style string) *columns.Table {
	return &columns.Table{Indent: 2, Style: func(_, column int, cell string) string {
		if column == 0 {
			return l.style(style, cell)
		}
		return cell
	}}
}

// line writes the label what in the given style, followed by text, and wraps the line to the terminal's width.
func (l Look) line(b *strings.Builder, style, what, text string) {
	t := l.table(style)
	t.Add(columns.Pad(what, len("warning")), terminal.Line(text))
	b.WriteString(t.Text(l.Width))
}

// statusStyle returns green for success, red for failure or cancellation, and yellow for work in progress.
func statusStyle(status string) string {
	switch status {
	case runfolder.Completed:
		return "32"
	case runfolder.Failed, string(trainers.Canceled):
		return "31"
	}
	return "33"
}

// WriteSummary prints a run's status, inputs, records, files, drops and warnings, and the next command.
func WriteSummary(w io.Writer, s *Summary, look Look) error {
	var b strings.Builder
	c := s.Counts
	status := s.Status
	if s.NotStarted {
		status = "not started"
	}
	fmt.Fprintf(&b, "%s  %s\n", look.style("1", "run "+s.RunID), look.style(statusStyle(s.Status), status))
	if s.Chosen != "" {
		look.line(&b, "", "chosen", s.Chosen)
	}
	if !s.NotStarted {
		fmt.Fprintf(&b, "  in       %s, %s\n", ledger.Quantity(c.Examples, "example"),
			ledger.Quantity(c.Candidates, "candidate"))
		for _, step := range s.Where {
			look.line(&b, "", "where", step.String())
		}
		fmt.Fprintf(&b, "  records  %s made, %d kept\n", ledger.Quantity(c.Records, "record"), c.Kept)
	}
	for _, f := range s.Written {
		path := filepath.Join(s.DatasetDir, filepath.FromSlash(f.Path))
		if objects.Is(s.DatasetDir) {
			path = objects.Join(s.DatasetDir, f.Path)
		}
		fmt.Fprintf(&b, "  wrote    %s  %s\n", path, ledger.Quantity(f.Rows, "row"))
	}
	if s.Batches != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Batches.Counts)) {
			n := s.Batches.Counts[name]
			fmt.Fprintf(&b, "  batches  %-15s %s, %s, %s\n", name, ledger.Quantity(n.Batches, "batch"),
				ledger.Quantity(n.Rows, "row"), ledger.Quantity(n.Tokens, "token"))
		}
	}
	writeLabels(&b, s)
	writeSites(&b, s, look)
	writeDrops(&b, s.Accounts, look)
	writeOverlaps(&b, s.Contamination, look)
	writeJob(&b, s)
	for _, text := range s.Warnings {
		look.line(&b, "33", "warning", text)
	}
	for _, text := range s.Also {
		look.line(&b, "", "also", text)
	}
	if s.Next != "" {
		look.line(&b, "36", "next", s.Next)
	}
	_, err := io.WriteString(terminal.For(w), b.String())
	return err
}

// writeJob prints the job and its results, unless the data set was only written to files.
func writeJob(b *strings.Builder, s *Summary) {
	j, ok := s.Job.(*trainers.JobRef)
	if !ok || j == nil || j.Backend == files.Backend {
		return
	}
	fmt.Fprintf(b, "  job      %s at %s\n", terminal.Line(j.ID), terminal.Line(j.Backend))
	for _, of := range []struct{ what, key string }{{"model", "output_model"}, {"deployed", "deployment"}} {
		if name := j.Metadata[of.key]; name != "" {
			fmt.Fprintf(b, "  %-8s %s\n", of.what, terminal.Line(name))
		}
	}
}

// writeLabels prints how many rollouts were good and bad, if the data set has rows with such labels.
func writeLabels(b *strings.Builder, s *Summary) {
	labelled := slices.ContainsFunc(s.Written, func(f writtenFile) bool { return strings.HasPrefix(f.Path, "kto") })
	if labelled && len(s.Labels) > 0 {
		fmt.Fprintf(b, "  labels   %s good, %d bad\n", ledger.Quantity(s.Labels["good"], "rollout"), s.Labels["bad"])
	}
}

// writeSites prints which failed calls have hints, where the hints come from, and how the token rows differ from the
// sampled text.
func writeSites(b *strings.Builder, s *Summary, look Look) {
	kinds := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(s.Sites)) {
		if p := strings.Split(name, "/"); len(p) == 3 {
			kinds[p[2]] += s.Sites[name]
			fmt.Fprintf(b, "  sites    %-18s %s, hints by %s (%s)\n", p[0], ledger.Quantity(s.Sites[name], "site"),
				p[1], p[2])
		}
	}
	if n := kinds["hindsight"]; n > 0 {
		look.line(b, "", "hints", fmt.Sprintf("%d knowable, %d hindsight: training on hindsight teaches the model to "+
			"use information that it could not have had; hints.allow: [knowable] excludes it", kinds["knowable"], n))
	}
	if s.Batches == nil {
		return
	}
	for _, x := range []struct {
		what string
		n    map[string]int64
	}{
		{"sampled by the model to be trained", s.Batches.Stats.OnPolicy},
		{"tool-call arguments as sampled", s.Batches.Stats.Args},
	} {
		total, parts := int64(0), []string(nil)
		for _, n := range x.n {
			total += n
		}
		for _, name := range slices.Sorted(maps.Keys(x.n)) {
			parts = append(parts, fmt.Sprintf("%s %.0f %%", name, 100*float64(x.n[name])/float64(total)))
		}
		if total > 0 {
			fmt.Fprintf(b, "  rows     %s: %s\n", x.what, strings.Join(parts, ", "))
		}
	}
	if p := s.Batches.Policy; p != "" {
		look.line(b, "", "policy", terminal.Line(p)+", the only model that the inputs name, is assumed to be the one "+
			"to be trained; collator.policy names another")
	}
	writeEffects(b, s.Batches.Teacher)
	st := &s.Batches.Stats
	if words := st.Forward.Words(s.Batches.Counts); words != "" {
		look.line(b, "", "tokens", words)
	}
	if n := st.Open; n > 0 {
		fmt.Fprintf(b, "  rows     %s without an end: the template has no end token\n", ledger.Quantity(n, "turn"))
	}
	if n := st.LeftOut.Reasoning; n > 0 {
		fmt.Fprintf(b, "  rows     the template omits the reasoning of %s\n", ledger.Quantity(n, "trained turn"))
	}
	if n := st.LeftOut.Calls; n > 0 {
		fmt.Fprintf(b, "  rows     the template omits the calls of %s\n", ledger.Quantity(n, "message"))
	}
}

// writeEffects prints how much the hints change a teacher's predictions, if that was measured.
func writeEffects(b *strings.Builder, t *teacher.Report) {
	if t == nil {
		return
	}
	if w := t.Weighed; w != nil && w.Sites > 0 {
		fmt.Fprintf(b, "  hints    change the predictions at %s by %.3g nats on average (JSD), the target's log-prob by %+.3g\n",
			ledger.Quantity(int64(w.Sites), "site"), w.Mean, w.Change)
	}
	if h := t.Hints; h != nil && h.Sites > 0 {
		fmt.Fprintf(b, "  hints    change the predictions at %s by %.3g to %.3g nats on average (JSD, bounds from "+
			"top-k log-probs)\n",
			ledger.Quantity(int64(h.Sites), "site"), h.Lower, h.Upper)
	}
}

// writeOverlaps prints how many records share words with the files of dataset.contamination, and the first overlaps.
func writeOverlaps(b *strings.Builder, c *runfolder.Contamination, look Look) {
	if c == nil {
		return
	}
	text := fmt.Sprintf("%d of %s share 13 words in a row, or a whole text, with the files of dataset.contamination",
		c.Records, ledger.Quantity(int64(c.Checked), stage.UnitRecord))
	if c.Records > 0 {
		text += fmt.Sprintf(" (%s; contamination.jsonl lists them)", ledger.Quantity(c.Examples, stage.UnitExample))
	}
	look.line(b, "", "overlap", text)
	for i := range c.Overlaps[:min(len(c.Overlaps), 3)] {
		look.line(b, "33", "overlap", "example "+c.Overlaps[i].Example+": "+c.Overlaps[i].String())
	}
}

// writeDrops lists the drops, most frequent first, each in the unit in which it was counted.
func writeDrops(b *strings.Builder, accounts []ledger.Account, look Look) {
	type line struct {
		n            int64
		unit, reason string
		stage        ledger.Stage
	}
	var lines []line
	for _, a := range accounts {
		for r, n := range a.Dropped {
			if r == source.OtherStep { // steps that aren't candidates are counted only so that the accounts balance
				continue
			}
			lines = append(lines, line{n, a.Unit, string(r), a.Stage})
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.reason+a.unit, b.reason+b.unit))
	})
	table := look.table("33")
	for _, l := range lines {
		why := ""
		if page, ok := explain.Code(l.reason); ok {
			why, _, _ = strings.Cut(page.Text, ". ")
		}
		table.Add("dropped", ledger.Quantity(l.n, l.unit), l.reason, strings.TrimSuffix(why, "."))
	}
	b.WriteString(table.Text(look.Width))
}
