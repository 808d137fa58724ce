package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source"
)

// Screen prints the report as text.
func (r *Report) Screen(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", terminal.Line(strings.Join(r.Paths, ", ")))
	line := func(name, format string, a ...any) {
		t := columns.Table{Indent: 2}
		t.Add(columns.Pad(name, len("examples")), terminal.Line(fmt.Sprintf(format, a...)))
		b.WriteString(t.Text(terminal.Width(w)))
	}
	r.contents(line)
	r.leftovers(line)
	r.uses(line)
	_, err := io.WriteString(terminal.For(w), b.String())
	return err
}

// printer prints a line that begins with a name.
type printer func(name, format string, a ...any)

// maxSkipped is the maximum number of skipped files that are listed.
const maxSkipped = 20

// contents prints the way in which the files are read, and their contents.
func (r *Report) contents(line printer) {
	line("read as", "%s, %s", r.Source, quantity(r.Files, "file"))
	if r.Sample > 0 {
		line("sample", "at most %d KiB of each file; %s longer", r.Sample>>10, areFiles(r.Cut))
	}
	for _, p := range r.Passed[:min(maxSkipped, len(r.Passed))] {
		line("not read", "%s: %s", p.Path, p.Why)
	}
	if more := len(r.Passed) - maxSkipped; more > 0 {
		line("not read", "%d more files; --json lists them", more)
	}
	for _, guess := range r.Guessed {
		line("guessed", "%s", guess)
	}
	some := ""
	if !r.Whole {
		some = " (only the beginning was read)"
	}
	r.sessions(line)
	line("examples", "%d%s", r.Examples, some)
	for _, step := range r.Where {
		line("where", "%s", step)
	}
	for _, clause := range r.Later {
		line("where", "clause applied only in a run, because it concerns tasks or records: %s", clause)
	}
	if r.Messages > 0 {
		line("messages", "%d, including %s; %s",
			r.Messages, quantity(r.Turns, "assistant turn"), quantity(r.ToolCalls, "tool call"))
		line("tools", "listed in %d of %s", r.WithTools, quantity(r.Examples, "example"))
	}
	if n := r.errorSites(); n > 0 {
		line("failed", "%s that failed", quantity(n, "tool call"))
	}
	if r.Candidates > 0 {
		line("answers", "%d; %s with several", r.Candidates, quantity(r.Choices, "prompt"))
	}
	if scores := r.scores(); scores != "" {
		line("scores", "%s", scores)
	}
	if r.TokenIDs > 0 {
		line("tokens", "%s with token ids, %d with log-probs", quantity(r.TokenIDs, "turn"), r.LogProbs)
	}
	r.fidelity(line)
	if s := r.Stored; s != nil && s.Given+s.Written > 0 {
		line("usage", "%d prompt tokens, %d output tokens, as recorded for the trained calls", s.Given, s.Written)
	}
	if len(r.Policies) > 0 {
		line("models", "%s", strings.Join(slices.Sorted(maps.Keys(r.Policies)), ", "))
	}
}

// sessions prints the content of stored sessions, and the programs that wrote them.
func (r *Report) sessions(line printer) {
	s := r.Stored
	if s == nil {
		return
	}
	line("sessions", "%d, with %s and %s of their histories", s.Sessions, quantity(int(s.Calls), "model call"),
		quantity(r.Branches, "branch"))
	if len(s.Versions) == 0 {
		return
	}
	var by []string
	for _, name := range sorted(s.Versions) {
		if newest := s.Newer[name]; newest != "" {
			name += " (newer than " + newest + ", the newest that was tried)"
		}
		by = append(by, name)
	}
	line("versions", "%s", strings.Join(by, ", "))
}

func areFiles(n int64) string {
	if n == 1 {
		return "1 file is"
	}
	return fmt.Sprintf("%d files are", n)
}

// leftovers prints the parts of the files that were dropped or not read.
func (r *Report) leftovers(line printer) {
	for _, reason := range sorted(r.Dropped) {
		if reason != string(source.KeyNotUsed) {
			line("dropped", "%d %s", r.Dropped[reason], reason)
		}
	}
	for _, key := range sorted(r.Unused) {
		line("unused", "%q, in %s", key, quantity(int(r.Unused[key]), "example"))
	}
	if s := r.Stored; s != nil {
		for _, name := range sorted(s.Unread) {
			line("unread", "%s, %s", name, quantity(int(s.Unread[name]), "time"))
		}
		if len(s.Redacted) > 0 {
			classes := lists.Map(sorted(s.Redacted), func(class string) string {
				return fmt.Sprintf("%s %d", class, s.Redacted[class])
			})
			line("redacted", "%s", strings.Join(classes, ", "))
		}
	}
}

// uses prints the records that builders make from the files, and the chosen builders and formats.
func (r *Report) uses(line printer) {
	for _, cure := range r.Stats.Cures() {
		line("better", "%s", cure)
	}
	if r.Tried > 0 {
		line("builders", "were tried on the first %s", quantity(r.Tried, "example"))
	}
	for _, y := range r.Builders {
		line("builder", "%-10s %5d %s%s", y.Name(), y.Records, unit(y.Records), dropReasons(y))
		if y.Remedy != "" {
			line("remedy", "%-10s %s", y.Name(), y.Remedy)
		}
	}
	if r.carrying() > 0 {
		line("tokens", "about %d in the longest conversation (estimated from its text): collator.%s", r.Sizes.Max,
			r.Sizes.Advice(usualLength))
	}
	if len(r.Tokenizers) > 0 {
		line("model", "tokenizer in %s; to make token batches, set collator.tokenizer to its folder",
			strings.Join(r.Tokenizers, ", "))
	}
	for _, l := range r.LeftOut {
		line("template", "%s", l)
	}
	if len(r.Choice.Builders) == 0 {
		line("choice", "none: %s", r.Choice.Why)
	} else {
		line("choice", "%s, as %s: %s", strings.Join(r.Choice.Builders, ", "), strings.Join(r.Choice.Formats, ", "),
			r.Choice.Why)
	}
	for _, loss := range r.Losses() {
		line("lost", "%s", loss)
	}
}

func unit(n int64) string {
	if n == 1 {
		return "record"
	}
	return "records"
}

// maxReasons is the maximum number of drop reasons listed for a builder.
const maxReasons = 3

func dropReasons(y Yield) string {
	if len(y.Dropped) == 0 {
		return ""
	}
	reasons := sorted(y.Dropped)
	return ", not used: " + strings.Join(counts(y.Dropped, reasons[:min(maxReasons, len(reasons))]), ", ")
}

// errorSites returns the number of failed tool calls that the sdpo builder found or that the source marked, whichever
// is larger.
func (r *Report) errorSites() int {
	y := r.yield(sdpoBuilder)
	return max(int(y.counted("found/")), r.ToolErrors)
}

// fidelity prints the number of calls for each fidelity, proof and gap.
func (r *Report) fidelity(line func(name, format string, a ...any)) {
	if len(r.Stats.Fidelity) == 0 {
		return
	}
	var grades []string
	for _, f := range []ttc.Fidelity{ttc.IDsLogProbs, ttc.IDs, ttc.TextOnly, ttc.Partial} {
		if n := r.Stats.Fidelity[f.String()]; n > 0 {
			grades = append(grades, fmt.Sprintf("%s %s", quantity(int(n), "call"), f))
		}
	}
	text := strings.Join(grades, ", ")
	for _, by := range slices.Sorted(maps.Keys(r.Stats.Proven)) {
		text += fmt.Sprintf("; %d proven by %s", r.Stats.Proven[by], by)
	}
	if gaps := counts(r.Stats.Gaps, slices.Sorted(maps.Keys(r.Stats.Gaps))); gaps != nil {
		text += "; " + strings.Join(gaps, ", ")
	}
	line("fidelity", "%s", text)
}

// scores describes the range and the direction of the scores. It returns "" if there are none.
func (r *Report) scores() string {
	if r.LowScore == nil {
		return ""
	}
	better := "higher is better"
	if r.Lower {
		better = "lower is better"
	}
	of := ""
	if r.Unscored > 0 && r.Scored > 0 {
		of = fmt.Sprintf("; %d conversations have no score", r.Unscored)
	}
	if low := *r.LowScore; low == *r.HighScore && low != 0 && low != 1 {
		return fmt.Sprintf("all %g, which could be good or bad%s", low, of)
	}
	return fmt.Sprintf("from %g to %g, %s%s", *r.LowScore, *r.HighScore, better, of)
}
