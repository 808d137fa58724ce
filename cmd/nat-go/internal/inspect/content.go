package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// patience is the maximum time for examining one source's inputs. If that takes longer, for example on a slow disk,
// the remaining inputs aren't examined before the run.
const patience = 10 * time.Second

// content examines the beginning of a source's inputs, read as a run would read them. It reports files that the source
// can't read, parts that the source omits, builders that make no records from the remaining parts, and formats that
// can't represent the records.
func (k *check) content(ctx context.Context, b *config.Block, f source.Factory) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	files := sampledFiles(f, f.Paths(b.Config))
	s := &sample{whole: true, yields: newYields()}
	s.yields.options = k.options() // try records with the configured options of the row formats
	usable := false
	for _, file := range files {
		r, err := s.read(ctx, f, b.Config, file)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			k.reportUnreadable(ctx, b, file, err)
			return
		}
		if usable = usable || r.Usable(); !r.Usable() && len(r.Dropped) > 0 {
			k.reportUnusable(ctx, b, file, r)
			return
		}
		k.warnLosses(b, file, r)
	}
	if usable {
		k.yield(ctx, b, s)
	}
}

// sampledFiles returns at most maxSampled regular files of a source's inputs, spread evenly over all files.
func sampledFiles(f source.Factory, paths []string) (files []string) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return p == source.Stdin || objects.Is(p) || strings.Contains(p, "${")
	})
	all, err := source.Expand(paths, cmp.Or(f.File, readers.NATFile))
	if f.OpenAll != nil {
		all, err = source.Matches(paths)
	}
	if err != nil {
		return nil
	}
	step := (len(all) + maxSampled - 1) / maxSampled
	for i := 0; i < len(all); i += step {
		// a pipe, standard input or an object can't be read twice
		if info, err := os.Stat(all[i]); err == nil && info.Mode().IsRegular() {
			files = append(files, all[i])
		}
	}
	return files
}

// options returns the row options that a run with this configuration uses.
func (k *check) options() (opt rows.Options) {
	if k.config.Dataset.PromptAs == "text" {
		opt.TextPrompt = rows.PlainText
	}
	opt.LastTurn = k.config.Dataset.Turns == "last"
	opt.Stretch = k.config.Dataset.Completion == "stretch"
	return opt
}

// reportUnreadable reports a file that would make a run fail because the source can't read it.
func (k *check) reportUnreadable(ctx context.Context, b *config.Block, file string, err error) {
	what, fix := err.Error(), ""
	if bad, ok := errors.AsType[*source.Error](err); ok {
		what, fix = bad.What, clause(bad.Help)
		if bad.Line > 0 {
			what = fmt.Sprintf("line %d: %s", bad.Line, what)
		}
	}
	fix = cmp.Or(k.readAs(ctx, b, file), fix, "specify another file, or recreate this one")
	k.report(config.CodeContent, fmt.Sprintf("the input %q can't be read as %s: %s", file, b.Type, secret.Shape(what)),
		fix, b.Section, b.Name, "path")
}

// clause lower-cases the first letter of a sentence, so that the sentence can be used as a fix.
func clause(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToLower(first)) + text[size:]
}

// reportUnusable reports a file without usable content.
func (k *check) reportUnusable(ctx context.Context, b *config.Block, file string, r *Report) {
	fix := cmp.Or(k.readAs(ctx, b, file), "`nat-go inspect "+file+"` shows how it can be read")
	k.report(config.CodeContent,
		fmt.Sprintf("nothing at the beginning of the input %q can be used as %s: %s", file, b.Type, dropped(r)), fix,
		b.Section, b.Name, "path")
}

// harmless lists the reasons for dropping parts of an input that builders don't need.
var harmless = []ledger.Reason{source.OtherStep, source.KeyNotUsed, source.IdenticalRow}

// warnLosses warns of parts that the source would omit.
func (k *check) warnLosses(b *config.Block, file string, r *Report) {
	for _, reason := range harmless {
		delete(r.Dropped, string(reason))
	}
	if len(r.Dropped) == 0 {
		return
	}
	k.place(finding.Warning, config.CodeContent,
		fmt.Sprintf("part of the beginning of the input %q would be omitted: %s", file, dropped(r)),
		"`nat-go explain REASON` explains how to deal with each reason", b.Section, b.Name, "path")
}

// counts returns each name, preceded by its count.
func counts(of map[string]int64, names []string) []string {
	return lists.Map(names, func(name string) string { return fmt.Sprintf("%d %s", of[name], name) })
}

// dropped lists the reasons why parts of a file were omitted, with their counts, and details for the first part.
func dropped(r *Report) string {
	text := strings.Join(counts(r.Dropped, slices.Sorted(maps.Keys(r.Dropped))), ", ")
	if len(r.Details) > 0 {
		text += " (" + secret.Shape(r.Details[0]) + ")"
	}
	return text
}

// readAs returns a fix that suggests settings for reading the file, if the file's format is recognised. Otherwise, the
// fix suggests settings for keys that resemble the expected ones. It returns "" if there is nothing to suggest.
func (k *check) readAs(ctx context.Context, b *config.Block, file string) string {
	found, err := readers.Recognize(ctx, builtin.Sources(), "", file, nil)
	if unknown, ok := errors.AsType[*readers.UnknownError](err); ok {
		return keySettings(b, unknown.Like)
	}
	if err != nil || b.Spec == nil {
		return ""
	}
	var parts []string
	now := map[string]any{}
	if found.Source.Type != b.Type {
		parts = append(parts, "_type: "+found.Source.Type)
	} else if text, fs := b.JSON(b.Spec); !finding.Failed(fs) {
		_ = json.Unmarshal(text, &now) // cannot fail, because the text was just marshalled
	}
	for _, key := range slices.Sorted(maps.Keys(found.Settings)) {
		if now[key] != found.Settings[key] {
			parts = append(parts, key+": "+found.Settings[key])
		}
	}
	if parts == nil {
		return ""
	}
	return "write " + strings.Join(parts, ", ")
}

// keySettings returns a fix with settings for keys that may hold the values that the source needs, or "".
func keySettings(b *config.Block, like [][2]string) string {
	if b.Spec == nil {
		return ""
	}
	var parts []string
	for _, l := range like {
		setting := l[0] + "_key"
		if f, ok := builtin.Source(b.Type); ok && f.Same[setting] != "" {
			setting = f.Same[setting]
		}
		if slices.Contains(b.Spec.Names(), setting) {
			parts = append(parts, setting+": "+l[1])
		}
	}
	if parts == nil {
		return ""
	}
	return "specify the meaning of the keys, perhaps " + strings.Join(parts, ", ")
}

// yield reports builders that make no records from the sample, and formats that can't represent the builders' records.
func (k *check) yield(ctx context.Context, b *config.Block, s *sample) {
	d := &k.config.Dataset
	if d.Scores != nil || len(d.ScoreRules) > 0 { // the sample lacks the scores that the run adds
		return
	}
	for _, selected := range k.config.Selected() {
		f, ok := builtin.Builder(selected.Type)
		if !ok || selected.Spec == nil {
			continue
		}
		settings, fs := selected.JSON(selected.Spec)
		if finding.Failed(fs) {
			continue
		}
		y, err := s.yields.with(ctx, f, settings)
		switch {
		case err != nil || y == nil || ctx.Err() != nil:
		case y.Records == 0:
			k.reportNoYield(ctx, &selected, b, s, y)
		default:
			k.warnRefused(y)
		}
	}
}

// reportNoYield reports a builder that makes no records from the sample. The finding is an error if the sample is the
// whole input, and a warning otherwise.
func (k *check) reportNoYield(ctx context.Context, builder, input *config.Block, s *sample, y *Yield) {
	parts := counts(y.Dropped, slices.Sorted(maps.Keys(y.Dropped)))
	read, severity := quantity(s.examples, "example"), finding.Error
	if !s.whole {
		read, severity = "beginning, "+read, finding.Warning
	}
	message := fmt.Sprintf("%s makes no record from sources.%s (%s)", builder.Type, input.Name, read)
	if parts != nil {
		message += ": " + strings.Join(parts, ", ")
	}
	fix := "`nat-go explain REASON` explains how to deal with a reason; `nat-go inspect` shows which records each builder makes from a file"
	for _, f := range builtin.Builders() {
		if other, err := s.yields.with(ctx, f, []byte("{}")); err == nil && other != nil && other.Records > 0 {
			fix = fmt.Sprintf("write _type: %s, which makes %s from the same examples", other.Builder,
				ledger.Quantity(other.Records, "record"))
		}
	}
	k.place(severity, config.CodeContent, message, fix, builder.Section, builder.Name, "_type")
}

// warnRefused warns of configured formats that can't represent some of a builder's records.
func (k *check) warnRefused(y *Yield) {
	for _, c := range y.Formats {
		i := slices.IndexFunc(k.config.Dataset.Formats, func(name string) bool {
			return strings.TrimSuffix(name, rows.TableSuffix) == c.Format
		})
		if i < 0 || c.Whole() {
			continue
		}
		fix := "remove the format"
		if other := y.Instead(c); other != nil {
			fix = "write another format: " + other.offer()
		}
		k.warn(i, "in the part of the input that was read, "+c.String(), fix)
	}
}

// sampled bounds the part of a file that a sample reads. It is large enough to find failures, and small enough to be
// read quickly.
var sampled = extent{100, 1 << 20}

// maxSampled is the maximum number of files from one input in a sample.
const maxSampled = 16

// sample holds the examples that a configured source reads from the beginning of each sampled file.
type sample struct {
	examples int
	whole    bool // whether the sampled files were read in full
	yields   *yields
}

// read adds the beginning of a file to the sample, and returns a report on only this file.
func (s *sample) read(ctx context.Context, f source.Factory, config any, file string) (*Report, error) {
	var one Report
	one.initMaps()
	one.Whole = true
	src, err := f.Open(ctx, config, file, source.Options{Drop: one.drop})
	if err == nil {
		_, err = one.readFrom(ctx, src, sampled, s.yields)
	}
	s.examples += one.Examples
	s.whole = s.whole && one.Whole
	return &one, err
}

// Usable reports whether any messages, candidates or steps were read.
func (r *Report) Usable() bool { return r.Messages+r.Candidates+r.steps > 0 }
