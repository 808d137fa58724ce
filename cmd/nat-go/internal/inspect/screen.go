package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

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

// contents prints how the files are read, and what they contain.
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

// fidelity prints how many calls have each fidelity, each proof, and each gap.
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

// defaultStep is the default step name. Builders look for it, and the source for candidates assigns it to steps.
const defaultStep = "dpo_candidate_move"

// YAML returns the report as a configuration that works as is, with comments for users who want to adapt it.
func (r *Report) YAML() []byte {
	var b strings.Builder
	some := "the first "
	if r.Whole {
		some = ""
	}
	fmt.Fprintf(&b, "# Made by `nat-go init` from %s%s", some, quantity(r.Examples, "example"))
	if r.Candidates > 0 {
		fmt.Fprintf(&b, " with %s", quantity(r.Candidates, "candidate"))
	}
	b.WriteString(".\n# Check it with `nat-go validate FILE`; run it with `nat-go run --config-file FILE`.\n\n")
	fmt.Fprintf(&b, "sources:\n  %s:\n", sourceName)
	fmt.Fprintf(&b, "    _type: %s\n    path: %s\n", r.Source, flow(r.Inputs()))
	for _, p := range r.Passed[:min(maxSkipped, len(r.Passed))] {
		fmt.Fprintf(&b, "    # not read: %s: %s\n", oneLine(p.Path), oneLine(p.Why))
	}
	if more := len(r.Passed) - maxSkipped; more > 0 {
		fmt.Fprintf(&b, "    # not read: %d more files\n", more)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		fmt.Fprintf(&b, "    %s: %s\n", key, flow(r.Settings[key]))
	}
	for _, guess := range r.Guessed {
		fmt.Fprintf(&b, "    # guessed: %s\n", oneLine(guess))
	}
	b.WriteString("\ntrajectory_builders:\n")
	var names []string
	for _, typ := range r.Choice.Builders {
		name := blockName(typ)
		names = append(names, name)
		fmt.Fprintf(&b, "  %s:\n    _type: %s\n", name, typ)
		r.builder(&b, typ)
	}
	fmt.Fprintf(&b, "\ndataset:\n  formats: %-14s # `nat-go formats` lists them\n", flow(r.Choice.Formats))
	for _, loss := range r.Losses() {
		fmt.Fprintf(&b, "  # %s\n", oneLine(loss))
	}
	if r.TextPrompt > 0 {
		b.WriteString("  prompt_as: user_message # a text prompt becomes one user message; or text\n")
	}
	fmt.Fprintf(&b, "  split: {by: %s, seed: 0} # validation: 0.2 of the records; 0 for none\n\n", r.Choice.SplitBy)
	fmt.Fprintf(&b, "finetuning:\n  enabled: true\n  trajectory_builder: %s\n  output_dir: out\n", flow(names))
	b.WriteString("  # trainer and trainer_adapter: without them the data set is written as files\n")
	r.collator(&b)
	return []byte(b.String())
}

// collator writes the settings for token batches as comments.
func (r *Report) collator(b *strings.Builder) {
	at, length := r.Tokenizers, ""
	if n := r.carrying(); n > 0 {
		length = fmt.Sprintf(", max_length: %d", n)
		if len(at) == 0 {
			at = []string{"FOLDER"}
		}
	}
	if len(at) == 0 {
		return
	}
	b.WriteString("\n# With a model's tokenizer, the run also writes token batches with exact masks.")
	if len(r.Tokenizers) > 0 {
		b.WriteString(" At hand:")
	}
	b.WriteByte('\n')
	for _, t := range at {
		fmt.Fprintf(b, "# collator: {tokenizer: %s%s}\n", flow(t), length)
	}
	if length != "" {
		fmt.Fprintf(b, "# Estimated from the text: %s.\n", r.Sizes.Advice(usualLength))
	}
	for _, l := range r.LeftOut {
		fmt.Fprintf(b, "# %s\n", oneLine(l.String()))
	}
}

// blockName returns the name of a builder's entry in the configuration.
func blockName(typ string) string {
	return strings.ReplaceAll(shortName(typ), "/", "-")
}

// selects reports whether demonstrations are selected by score. Such a selection drops examples without a score.
func (r *Report) selects() bool { return r.Scored > 0 || r.Candidates > 0 }

// builder writes the builder's settings that the input requires, and settings that users are likely to change.
func (r *Report) builder(b *strings.Builder, typ string) {
	if (typ == dpoBuilder || typ == sftBuilder) && r.Step != "" && (r.Step != defaultStep || len(r.Names) > 1) {
		fmt.Fprintf(b, "    ttc_step_name: %s%s\n", flow(r.Step), r.otherSteps())
	}
	if r.Lower && (typ == dpoBuilder || typ == sftBuilder) {
		b.WriteString("    score_direction: lower   # guessed from the name of the score\n")
	}
	switch typ {
	case dpoBuilder:
		b.WriteString("    strategy: exhaustive      # or best_vs_worst, adjacent, best_vs_rest, threshold, random_k\n")
		b.WriteString("    min_score_diff: 0         # omit pairs whose scores differ by less\n")
		b.WriteString("    # max_pairs_per_turn: 4   # keep the pairs with the largest difference\n")
	case sftBuilder:
		if r.selects() {
			b.WriteString("    select: best              # the best of each task or prompt, never the lowest score; or all, or threshold\n")
		}
	}
}

// otherSteps returns a comment with up to five step names that were not chosen.
func (r *Report) otherSteps() string {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(r.Names)) {
		if name != r.Step && len(others) < 5 {
			others = append(others, oneLine(name))
		}
	}
	if others == nil {
		return ""
	}
	return "   # also seen: " + strings.Join(others, ", ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// flow writes a value as YAML on one line.
func flow(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return fmt.Sprintf("%q", v)
	}
	if n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return fmt.Sprintf("%q", v)
	}
	return strings.TrimSpace(string(out))
}
