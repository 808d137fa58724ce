package inspect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
)

// formats warns of row formats that can carry none of the builders' records, or whose trainers train other turns. It
// warns of nothing if a plugin's builder is selected, whose records are unknown here.
func (k *check) formats() {
	c := k.config
	names := c.Dataset.Formats
	if len(names) == 0 || len(c.Selected()) == 0 {
		return
	}
	var all []builders.Kind
	for i := range c.Selected() {
		f, ok := builtin.Builder(c.Selected()[i].Type)
		if !ok {
			return
		}
		all = append(all, f.Info().Kinds...)
	}
	for i, name := range names {
		if f, ok := dataset.Lookup(name); ok && !carries(f, all) {
			k.warn(i, fmt.Sprintf("the format %s holds %s, and the builders make %s: it will have no row",
				name, words(f.Carries), words(all)), insteadOf(all))
		}
	}
	k.turns(names)
}

const everyTurn = "trainers of %s rows train every turn of the assistant, and %s trains the last"

// turns warns of formats whose trainers train other turns than an sft builder's settings name.
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
			switch lines := f.Lines(); {
			case s.Train == "last" && (lines == "trl" || lines == "messages" && k.config.Dataset.Turns == "last"):
			case s.Train == "last" && lines == "messages":
				k.warn(i, fmt.Sprintf(everyTurn, name, b.Name),
					"write trl, or set dataset.turns: last if the trainer is set up for that")
			case s.Train == "last":
				k.warn(i, fmt.Sprintf(everyTurn, name, b.Name),
					"write trl")
			default:
				k.warn(i, fmt.Sprintf("no trainer of %s rows trains the calls alone, as %s does", name, b.Name),
					"set collator.tokenizer: token batches can, and sft_parquet holds them for TRL")
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

// words lists kinds of records in words.
func words(kinds []builders.Kind) string {
	var out []string
	for _, k := range kinds {
		if w := k.String() + "s"; !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return strings.Join(out, " and ")
}

// insteadOf returns a fix that names formats for the kinds of records.
func insteadOf(kinds []builders.Kind) string {
	var names []string
	for _, f := range dataset.Formats() {
		if !f.FromBatches() && f.Name == f.Lines() && carries(f, kinds) {
			names = append(names, f.Name)
		}
	}
	if names == nil {
		return "set collator.tokenizer: token batches hold them, and no format does"
	}
	return "leave it out, or write " + strings.Join(names, ", ")
}
