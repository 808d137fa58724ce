package turns

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// WriteText prints a report as text.
func (rep *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(label, format string, a ...any) {
		fmt.Fprintf(&b, "%-26s %s\n", label, fmt.Sprintf(format, a...))
	}
	line("template", "%s", rep.Template)
	line("generation prompt", "%q, %s", rep.GenerationPrompt,
		choose(rep.PromptIsPrefix, "a prefix of the turn", "NOT a prefix of the turn"))
	line("  of a turn that thinks", "%s", choose(rep.PromptIsPrefixThinking, "a prefix too", "not a prefix"))
	if rep.NoThink != nil {
		line("thinking off", "%s=false, prompt %q", rep.NoThink.Variable, rep.NoThink.Prompt)
	}
	for _, kind := range slices.Sorted(maps.Keys(rep.Terminators)) {
		line("ends "+strings.ReplaceAll(kind, "_", " "), "%q", rep.Terminators[kind])
	}
	if len(rep.Filler) > 0 {
		line("filler in turns", "%q", rep.Filler)
	}
	for _, role := range slices.Sorted(maps.Keys(rep.Roles)) {
		line("role "+strings.ReplaceAll(role, "_", " "), "%s", rep.Roles[role])
	}
	for _, role := range slices.Sorted(maps.Keys(rep.Trims)) {
		if t := rep.Trims[role]; t.Left || t.Right {
			line("trims "+role, "%s", strings.TrimSpace(choose(t.Left, "left ", "")+choose(t.Right, "right", "")))
		}
	}
	line("tools", "%s", choose(rep.ToolsShown, "shown", "NOT shown"))
	line("tool calls", "%s, parallel ones %s", rep.Calls, rep.ParallelCalls)
	line("arguments", "%s; non-objects are %s", rep.Arguments, rep.RawArguments)
	line("reasoning", "last turn %s, history %s", choose(rep.Reasoning.Last, "shown", "left out"),
		choose(rep.Reasoning.History, "shown", "left out"))
	for _, kind := range slices.Sorted(maps.Keys(rep.PrefixPreserving)) {
		line("history of "+strings.ReplaceAll(kind, "_", " "), "%s",
			choose(rep.PrefixPreserving[kind], "stays as sampled", "is rewritten"))
	}
	for _, place := range slices.Sorted(maps.Keys(rep.Hints)) {
		p := rep.Hints[place]
		line("hint "+strings.ReplaceAll(place, "_", " "), "%s%s", p.Fate,
			choose(p.Fate != Kept, "", choose(p.Splice, ", the rest is unchanged", ", the rest CHANGES")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func choose(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}
