package inspect

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Yield describes the records that a builder makes from the examined part of the input.
type Yield struct {
	Builder  string           `json:"builder"` // the builder's `_type`
	Does     string           `json:"does"`
	Records  int64            `json:"records"`
	Dropped  map[string]int64 `json:"dropped,omitempty"` // number of drops, keyed by reason
	Counters map[string]int64 `json:"counters,omitempty"`
	Remedy   string           `json:"remedy,omitempty"`  // change that would help, if the builder makes no records
	Formats  []*Carried       `json:"formats,omitempty"` // formats tried with pairs and demonstrations
}

// Name returns the short name that --builder accepts.
func (y *Yield) Name() string { return shortName(y.Builder) }

// yields keeps the examined examples, grouped by task, and counts the records that builders make from them.
type yields struct {
	order   []*ttc.Group // a group for each task, in order of first occurrence
	tasks   map[string]*ttc.Group
	scales  ttc.Scales
	bytes   int64        // offset of the last example in its file
	options rows.Options // row options for trying the formats

	overrides map[string]map[string]any // the user's builder settings, keyed by entry name
}

func newYields() *yields { return &yields{tasks: map[string]*ttc.Group{}} }

func (y *yields) add(ex *ttc.Example, bytes int64) {
	y.bytes = bytes
	y.scales.Add(ex)
	key := cmp.Or(ex.Task, fmt.Sprintf("\x00%d/%s", ex.Run, ex.ID))
	g := y.tasks[key]
	if g == nil {
		g = &ttc.Group{Key: key, Scales: &y.scales}
		y.tasks[key] = g
		y.order = append(y.order, g)
	}
	g.Examples = append(g.Examples, ex)
}

// make runs every built-in builder except the chosen ones, using the defaults, the report's settings and the overrides.
func (y *yields) make(ctx context.Context, r *Report) (out []Yield, err error) {
	for _, f := range builtin.Builders() {
		if slices.Contains(r.Choice.Builders, f.Info().Name) {
			continue
		}
		one, err := y.by(ctx, f, r, y.overrides[blockName(f.Info().Name)])
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// by runs a builder with the report's settings and additional ones.
func (y *yields) by(ctx context.Context, f sdk.Factory, r *Report, further map[string]any) (Yield, error) {
	given := settings(f, r)
	maps.Copy(given, further)
	text, err := json.Marshal(given)
	if err != nil {
		return Yield{}, err
	}
	out, err := y.with(ctx, f, text)
	if out == nil { // the builder requires settings that were not given
		out = newYield(f.Info())
	}
	return *out, err
}

func newYield(info builders.Info) *Yield {
	return &Yield{Builder: info.Name, Does: info.Doc, Dropped: map[string]int64{}, Counters: map[string]int64{}}
}

// with runs a builder with the given settings. It returns a nil Yield if the builder rejects the settings.
func (y *yields) with(ctx context.Context, f sdk.Factory, settings []byte) (*Yield, error) {
	b, found := f.Open(settings)
	if finding.Failed(found) || b == nil {
		return nil, nil
	}
	info := f.Info()
	out := newYield(info)
	for _, g := range y.order {
		groups := []*ttc.Group{g}
		if info.Unit == builders.UnitExample {
			groups = lists.Map(g.Examples, func(ex *ttc.Example) *ttc.Group {
				return &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}}
			})
		}
		for _, g := range groups {
			if err := b.Build(ctx, g, &counter{out, g, y.options}); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// settings returns the settings from the report for which the builder's config has keys.
func settings(f sdk.Factory, r *Report) map[string]any {
	all := map[string]any{}
	if r.Step != "" {
		all["ttc_step_name"] = r.Step
	}
	if r.Lower {
		all["score_direction"] = "lower"
	}
	if r.selects() {
		all["select"] = "best"
	}
	known := schema.MustOf(f.Info().Config).Names()
	maps.DeleteFunc(all, func(key string, _ any) bool { return !slices.Contains(known, key) })
	return all
}

// counter counts the builder's output for a group.
type counter struct {
	*Yield
	group   *ttc.Group
	options rows.Options
}

func (c *counter) Record(r builders.Record) error {
	c.Records++
	return c.try(c.group, r, c.options)
}

func (c *counter) Drop(d ledger.Drop) error { c.Dropped[string(d.Reason)] += d.N(); return nil }

func (c *counter) Count(name string, n int64) error { c.Counters[name] += n; return nil }

// decode fills a config struct from settings.
func decode(spec *schema.Spec, settings map[string]any, into any) error {
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	doc, found := yamldoc.Parse("settings", text)
	if doc != nil && !finding.Failed(found) {
		found = append(found, spec.Decode(doc, doc.Root, into, schema.Options{})...)
	}
	for _, f := range found {
		if f.Severity == finding.Error {
			return fmt.Errorf("%s", f.Message)
		}
	}
	return nil
}

// overridden returns the settings that overrides of the form PATH=VALUE specify for a section's entries, by entry
// name and then by setting. It ignores overrides of nested keys, which only affect the configuration that is made
// from the input.
func overridden(overrides []string, section string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, o := range overrides {
		path, text, ok := strings.Cut(o, "=")
		parts := strings.Split(path, ".")
		if !ok || len(parts) != 3 || parts[0] != section {
			continue
		}
		var value any
		if yaml.Unmarshal([]byte(text), &value) != nil {
			continue // the invalid value is reported when the configuration is checked
		}
		if out[parts[1]] == nil {
			out[parts[1]] = map[string]any{}
		}
		out[parts[1]][parts[2]] = value
	}
	return out
}

// sourceName is the name of the source in a configuration that is made from an input.
const sourceName = "runs"

// remedy is a change that would make a builder produce records from the input. It is an entry of remedies.yaml, in
// which a comment explains the fields.
type remedy struct {
	Flags    []string
	Why      string
	Builder  string
	Settings map[string]any
	Calls    *bool
	Unscored bool
}

//go:embed remedies.yaml
var remediesFile []byte

// allRemedies returns the remedies for each builder.
var allRemedies = sync.OnceValue(func() (of map[string][]remedy) {
	if err := yaml.Unmarshal(remediesFile, &of); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return of
})

// remedies finds, for each builder that makes no records, the first remedy that helps. It tries remedies on the sample
// if they name a builder.
func (y *yields) remedies(ctx context.Context, r *Report) error {
	unscored := r.Scored == 0 && r.Examples > 0 && r.Candidates == 0
	for i := range r.Builders {
		b := &r.Builders[i]
		if b.Records > 0 {
			continue
		}
		for _, m := range allRemedies()[b.Builder] { // the best remedy comes first
			if m.Calls != nil && *m.Calls != (r.ToolCalls > 0) || m.Unscored && !unscored {
				continue // the remedy doesn't apply to this input
			}
			made, err := y.tried(ctx, r, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil && made != 0 { // an error means that the builder rejects the input or the settings
				b.Remedy = r.command(m, made)
				break
			}
		}
	}
	return nil
}

// tried returns the number of records that the builder named by a remedy makes. It returns -1 if the remedy names no
// builder, but only missing parts of the input or the settings.
func (y *yields) tried(ctx context.Context, r *Report, m remedy) (int64, error) {
	if m.Builder == "" {
		return -1, nil
	}
	f, _ := builtin.Builder(m.Builder)
	out, err := y.by(ctx, f, r, m.Settings)
	return out.Records, err
}

// command returns one line with the nat-go command that applies a remedy, and the reason for the remedy.
func (r *Report) command(m remedy, made int64) string {
	line := "nat-go run " + strings.Join(slices.Concat(r.Paths, m.Flags), " ")
	if made > 0 {
		return fmt.Sprintf("`%s` makes %d: %s", line, made, m.Why)
	}
	return fmt.Sprintf("%s: `%s`", m.Why, line)
}

// Also describes the records that builders other than the chosen ones would make from the input.
func (r *Report) Also() (out []string) {
	some := ""
	if !r.Whole {
		some = "at least "
	}
	for _, y := range slices.Concat(r.Builders, r.others) {
		if slices.Contains(r.Choice.Builders, y.Builder) || y.Records == 0 {
			continue
		}
		n, unit, with, more := y.Records, "preference pair", "", ""
		switch y.Builder {
		case sdpoBuilder:
			n, unit, with, more = y.counted("sites/"), "site", " with hints", " and -o collator.tokenizer=FOLDER"
		case grpoBuilder:
			if r.Scored == 0 {
				continue
			}
			unit, with, more = "rollout", " with rewards", ", and --format kto to label them good or bad"
		case sftBuilder:
			unit = "demonstration"
		case statesBuilder:
			unit, with = "state", " to sample from"
		}
		out = append(out, some+ledger.Quantity(n, unit)+with+": add --builder "+y.Name()+more)
	}
	return out
}

// counted returns the sum of the counters whose names begin with a prefix. Counters that begin with sites/ count error
// sites with a hint, and counters that begin with found/ count all error sites.
func (y *Yield) counted(prefix string) (n int64) {
	for name, of := range y.Counters {
		if strings.HasPrefix(name, prefix) {
			n += of
		}
	}
	return n
}
