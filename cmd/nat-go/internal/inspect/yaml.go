package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// defaultStep is the default step name in builders, and the name that the source for candidates assigns to steps.
const defaultStep = "dpo_candidate_move"

// YAML returns the report as a ready-to-use configuration, with comments for users who want to adapt it.
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

// selects reports whether demonstrations are selected by score. Selection by score drops examples without a score.
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
