package inspect

import (
	"context"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
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
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/exec"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/objects"
)

// Check reports problems with the files and programs to which a configuration refers. Paths are relative to the
// current folder, as in a run. It reads only the beginning of each input.
func Check(ctx context.Context, c *config.Config) []finding.Finding {
	k := &check{config: c}
	for i := range c.Sources {
		k.source(ctx, &c.Sources[i])
	}
	k.tokenizer()
	if t := c.Collator.Template; strings.HasSuffix(t, ".jinja") || strings.ContainsRune(t, filepath.Separator) {
		k.path(t, "the template", "collator", "template")
	}
	if r := c.Collator.Reference; r != nil {
		k.path(r.Path, "the file of log-probs", "collator", "reference", "path")
	}
	if t := c.Collator.Teacher; t != nil && t.Dumps != "" {
		k.path(t.Dumps, "the folder of logits", "collator", "teacher", "dumps")
	}
	if a := c.Adapter(); a != nil {
		k.adapter(a)
	}
	for _, b := range c.Selected() {
		k.builder(&b)
	}
	k.formats()
	return k.found
}

type check struct {
	config *config.Config
	found  []finding.Finding
}

func (k *check) report(code, message, fix string, path ...string) {
	k.place(finding.Error, code, message, fix, path...)
}

func (k *check) place(severity finding.Severity, code, message, fix string, path ...string) {
	f := finding.Finding{Code: code, Severity: severity, Message: message, Fix: fix}
	k.found = append(k.found, k.config.Place(f, path...))
}

func (k *check) source(ctx context.Context, b *config.Block) {
	f, ok := builtin.Source(b.Type)
	if !ok || f.Paths == nil || b.Config == nil {
		return
	}
	before := len(k.found)
	for _, p := range f.Paths(b.Config) {
		if objects.Is(p) && f.Open != nil { // the run reads the input from object storage
			if bad, ok := errors.AsType[*objects.Error](objects.Check(p)); ok {
				k.report(config.CodeRemote, fmt.Sprintf("%s %s: %s", theInput, bad.Path, bad.What), clause(bad.Help),
					b.Section, b.Name, "path")
			}
			continue
		}
		k.path(p, theInput, b.Section, b.Name, "path")
	}
	if len(k.found) == before && f.Open != nil {
		k.content(ctx, b, f)
	}
}

var (
	address   = regexp.MustCompile(`^([a-z][a-z0-9+.-]+)://`)
	modelName = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+$`)
)

// remote reports a finding and returns true if p is an address in place of a path.
func (k *check) remote(p, what string, path ...string) bool {
	m := address.FindStringSubmatch(p)
	if m == nil {
		return false
	}
	name := p[strings.LastIndexByte(p, '/')+1:]
	copying := map[string]string{
		"s3": "aws s3 cp " + p + " .", "gs": "gcloud storage cp " + p + " .",
		"hf":   "hf download " + strings.TrimPrefix(p, "hf://"),
		"http": "curl -O " + p, "https": "curl -O " + p,
	}[m[1]]
	fix := "copy it to this machine and write " + name
	if copying != "" {
		fix = "copy it, `" + copying + "`, and write " + name
	}
	k.report(config.CodeRemote,
		fmt.Sprintf("%s is the address %q, but nat-go reads files on this machine", what, p), fix, path...)
	return true
}

const theInput = "the input"

// path reports a path or pattern that doesn't match any file, an address in place of a path, and an empty input file.
func (k *check) path(p, what string, path ...string) {
	if p == "" || p == "-" || strings.Contains(p, "${") || k.remote(p, what, path...) {
		return
	}
	if info, err := os.Stat(p); err == nil {
		if what == theInput && info.Mode().IsRegular() && info.Size() == 0 {
			k.report(config.CodeMissing, fmt.Sprintf("%s %q is empty", what, p),
				"write the path of a file that has entries, or collect them first", path...)
		}
		return
	}
	if found, _ := filepath.Glob(p); len(found) > 0 {
		return
	}
	fix := "write the path of an existing file; it is relative to the current folder"
	if near := nearby(p); near != "" {
		fix = "write " + near
	}
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		fix = "write ${HOME}/" + rest + ": only a shell expands ~"
	}
	k.report(config.CodeMissing, fmt.Sprintf("%s %q does not exist", what, p), fix, path...)
}

// nearby returns the file that the user most likely meant by the name of a missing file. This is a file in the same
// folder with a similar name, or the only file there with the same extension. It returns "" if there is no such file.
func nearby(p string) string {
	folder := filepath.Dir(p)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return ""
	}
	var all, same []string
	for _, e := range entries {
		all = append(all, e.Name())
		if filepath.Ext(e.Name()) == filepath.Ext(p) {
			same = append(same, e.Name())
		}
	}
	near := finding.Nearest(filepath.Base(p), all)
	if near == "" && len(same) == 1 {
		near = same[0]
	}
	if near == "" {
		return ""
	}
	return filepath.Join(folder, near)
}

func (k *check) tokenizer() {
	p := k.config.Collator.Tokenizer
	if p == "" || strings.Contains(p, "${") || objects.Is(p) {
		return
	}
	at := []string{"collator", "tokenizer"}
	if k.remote(p, "the tokenizer", at...) {
		return
	}
	info, err := os.Stat(p)
	switch {
	case err != nil && modelName.MatchString(p) && !runfolder.Has(filepath.Dir(p)):
		to := "models/" + filepath.Base(p)
		fix := fmt.Sprintf("download it, `hf download %s --local-dir %s`, and write %s", p, to, to)
		if cached := cachedTokenizer(p); cached != "" {
			fix = "write " + cached
		}
		k.report(config.CodeModelName,
			fmt.Sprintf("%q is a model's name; nat-go needs a folder, and does not download models", p), fix, at...)
	case err != nil:
		k.path(p, "the tokenizer", at...)
	case info.IsDir() && !runfolder.Has(filepath.Join(p, "tokenizer.json")):
		fix := "write a folder that contains tokenizer.json, such as the folder of a model saved with its tokenizer"
		for _, sub := range []string{"tokenizer", "model"} {
			if runfolder.Has(filepath.Join(p, sub, "tokenizer.json")) {
				fix = "write " + filepath.Join(p, sub)
			}
		}
		k.report(config.CodeMissing, fmt.Sprintf("the folder %q has no tokenizer.json", p), fix, at...)
	}
}

// adapter reports a local trainer whose program doesn't exist.
func (k *check) adapter(b *config.Block) {
	c, ok := b.Config.(*exec.Config)
	if !ok || len(c.Command) == 0 || strings.ContainsAny(c.Command[0], "{$") {
		return
	}
	program := c.Command[0]
	if strings.ContainsRune(program, filepath.Separator) && c.WorkDir != "" && !filepath.IsAbs(program) {
		program = filepath.Join(c.WorkDir, program)
	}
	if _, err := osexec.LookPath(program); err != nil {
		fix := "write the path of an existing program, or install it"
		if near := nearby(program); near != "" && strings.ContainsRune(program, filepath.Separator) {
			fix = "write " + near
		}
		k.report(config.CodeMissing, fmt.Sprintf("cannot find program %q", c.Command[0]), fix,
			b.Section, b.Name, "command", "0")
	}
}

// builder makes a built-in builder check its settings, and reports the findings that a run would report.
func (k *check) builder(b *config.Block) {
	if b.Spec == nil || strings.Contains(b.Type, "/") {
		return
	}
	f, ok := builtin.Builder(b.Type)
	settings, found := b.JSON(b.Spec)
	if !ok || finding.Failed(found) {
		return // already reported
	}
	_, found = f.Open(settings)
	k.found = append(k.found, b.Adopt(plugins.Findings(found))...)
}

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
		return lists.Map(c.Emit, func(what string) builders.Kind { return emitted[what] })
	}
	if f, ok := builtin.Builder(b.Type); ok {
		kinds = f.Info().Kinds
	}
	return kinds
}

// DefaultFormats returns the row formats that a run writes if the user doesn't name any. If the adapter has its own
// format, it is the only one. Otherwise, the formats are those that fit the builders' records, with trl for a plugin's
// builder.
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
			names = append(names, fitting[k])
		}
	}
	return lists.Unique(names)
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
// other than the configured ones. If a plugin's builder is selected, whose kinds of records are unknown, formats
// doesn't warn, but reports the default formats in a note if the configuration doesn't name formats.
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

// turns warns about formats whose trainers train on turns other than the ones that an sft builder's settings specify.
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
				k.warn(i, fmt.Sprintf("trainers of %s rows train on every assistant turn, but %s trains only on the "+
					"last", name, b.Name), fix)
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
	plurals := lists.Map(kinds, func(k builders.Kind) string { return k.String() + "s" })
	return strings.Join(lists.Unique(plurals), " and ")
}

// instead returns a fix that suggests formats for the given kinds of records, after the text in or. If no format
// fits, the fix suggests only token batches.
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
