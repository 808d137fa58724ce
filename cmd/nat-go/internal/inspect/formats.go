package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
)

// fitting maps each kind of record to the row format that is written unless the user names formats.
var fitting = map[builders.Kind]string{
	builders.KindPreference: "trl", builders.KindDemonstration: "trl", builders.KindRollout: "verl",
	builders.KindState: "nemo_gym", builders.KindDistillation: "privileged",
}

// emitted maps each value of an sdpo builder's emit setting to the kind of record that it requests.
var emitted = map[string]builders.Kind{
	"distillation": builders.KindDistillation, "repair_pairs": builders.KindPreference,
	"demonstrations": builders.KindDemonstration,
}

// kindsOf returns the kinds of record that a built-in builder makes with the block's settings. It returns nil for a
// plugin's builder, because the kinds aren't known until the plugin starts.
func kindsOf(b *config.Block) (kinds []builders.Kind) {
	if c, ok := b.Config.(*sdpo.Config); ok {
		for _, what := range c.Emit {
			kinds = append(kinds, emitted[what])
		}
		return kinds
	}
	if f, ok := builtin.Builder(b.Type); ok {
		kinds = f.Info().Kinds
	}
	return kinds
}

// DefaultFormats returns the row formats that a run writes if the user doesn't name any: the adapter's own format, or
// else the formats that fit the builders' records, with trl for a plugin's builder.
func DefaultFormats(c *config.Config) (names []string) {
	if a := c.Adapter(); a != nil {
		if f, ok := builtin.Adapter(a.Type); ok && f.Format != nil && f.Format(a.Config) != "" {
			return []string{f.Format(a.Config)}
		}
	}
	for _, b := range c.Selected() {
		kinds := kindsOf(&b)
		if kinds == nil {
			kinds = []builders.Kind{builders.KindPreference}
		}
		for _, k := range kinds {
			if !slices.Contains(names, fitting[k]) {
				names = append(names, fitting[k])
			}
		}
	}
	return names
}

// Unfit warns if the default formats can't represent any of a builder's records, unless the user names formats.
func Unfit(c *config.Config, builder string, kinds []builders.Kind) []finding.Finding {
	k, names := &check{config: c}, DefaultFormats(c)
	if len(c.Dataset.Formats) == 0 && !slices.ContainsFunc(names, func(name string) bool {
		f, ok := dataset.Lookup(name)
		return ok && carries(f, kinds)
	}) {
		message := fmt.Sprintf("%s makes %s, but %s, written by default, can't hold any of them",
			builder, words(kinds), strings.Join(names, ", "))
		k.place(finding.Warning, config.CodeCarries, message, instead("", kinds), "dataset", "formats")
	}
	return k.found
}

// formats warns about row formats that can't represent any of the builders' records, or whose trainers train on turns
// other than the configured ones. If a plugin's builder is selected, its kinds of records are unknown, so formats
// doesn't warn, but notes the default formats if the configuration doesn't name formats.
func (k *check) formats() {
	c := k.config
	names := c.Dataset.Formats
	var all []builders.Kind
	for _, b := range c.Selected() {
		kinds := kindsOf(&b)
		if kinds == nil {
			message := fmt.Sprintf("rows are written as %s by default; the kinds of record that %s makes "+
				"aren't known before the run", strings.Join(DefaultFormats(c), ", "), b.Type)
			if len(names) == 0 {
				k.place(finding.Note, config.CodeCarries, message, "for records other than preferences and "+
					"demonstrations, specify a format: verl for rollouts, nemo_gym for states, privileged for hints",
					"dataset", "formats")
			}
			return
		}
		all = append(all, kinds...)
	}
	if len(all) == 0 {
		return
	}
	k.found = append(k.found, Unfit(c, "the run", all)...)
	for i, name := range names {
		if f, ok := dataset.Lookup(name); ok && !carries(f, all) {
			k.warn(i, fmt.Sprintf("the format %s holds %s, but the builders make %s: it will not have any rows",
				name, words(f.Carries), words(all)), instead("remove the format, or ", all))
		}
	}
	k.turns(names)
}

// turns warns about formats whose trainers train on different turns than an sft builder's settings specify.
func (k *check) turns(names []string) {
	for _, b := range k.config.Selected() {
		s, ok := b.Config.(*sft.Config)
		if !ok || s.Train == "all" {
			continue
		}
		for i, name := range names {
			f, ok := dataset.Lookup(name)
			if !ok || f.FromBatches() || !slices.Contains(f.Carries, builders.KindDemonstration) {
				continue
			}
			switch lines, fix := f.Lines(), "write trl"; {
			case s.Train == "last" && (lines == "trl" || lines == "messages" && k.config.Dataset.Turns == "last"):
			case s.Train == "last":
				if lines == "messages" {
					fix += ", or set dataset.turns: last if the trainer trains only on the last turn"
				}
				k.warn(i, fmt.Sprintf("trainers of %s rows train on every assistant turn, but %s trains only on the last",
					name, b.Name), fix)
			default:
				k.warn(i, fmt.Sprintf("trainers of %s rows can't train only on calls, as %s requires", name, b.Name),
					"set collator.tokenizer: token batches mark the calls, and the format sft_parquet has them for TRL")
			}
		}
	}
}

func (k *check) warn(i int, message, fix string) {
	k.place(finding.Warning, config.CodeCarries, message, fix, "dataset", "formats", strconv.Itoa(i))
}

func carries(f dataset.Format, kinds []builders.Kind) bool {
	return slices.ContainsFunc(f.Carries, func(k builders.Kind) bool { return slices.Contains(kinds, k) })
}

// words returns the names of the kinds in the plural, joined by "and".
func words(kinds []builders.Kind) string {
	var out []string
	for _, k := range kinds {
		if w := k.String() + "s"; !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return strings.Join(out, " and ")
}

// instead returns a fix that suggests formats for the given kinds of records, after the text in the parameter or. If no
// format fits, the fix suggests only token batches.
func instead(or string, kinds []builders.Kind) string {
	var names []string
	for _, f := range dataset.Formats() {
		if !f.FromBatches() && f.Name == f.Lines() && carries(f, kinds) {
			names = append(names, f.Name)
		}
	}
	if names == nil {
		return "set collator.tokenizer: token batches can hold the records, but none of the formats can"
	}
	return or + "write " + strings.Join(names, ", ")
}
