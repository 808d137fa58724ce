package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/plugins/sdk"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Yield describes the records that a builder makes from the examined part of the input.
type Yield struct {
	Builder  string           `json:"builder"` // its `_type`
	Does     string           `json:"does"`
	Records  int64            `json:"records"`
	Dropped  map[string]int64 `json:"dropped,omitempty"` // by reason
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
	key := ex.Task
	if key == "" {
		key = fmt.Sprintf("\x00%d/%s", ex.Run, ex.ID)
	}
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

// by runs a builder with the report's settings and further ones.
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

// with runs a builder with the given settings. It returns a nil Yield if the builder refuses the settings.
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
			groups = groups[:0]
			for _, ex := range g.Examples {
				groups = append(groups, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
			}
		}
		for _, g := range groups {
			if err := b.Build(ctx, g, &counter{out, g, y.options}); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

// settings returns the settings from the report that the builder's config has keys for.
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
	doc, found := yamldoc.Parse("settings", text, yamldoc.DefaultLimits)
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

// overridden returns the settings that overrides of the form PATH=VALUE specify for a section's entries, keyed by entry
// name and then by setting. It ignores overrides of nested keys, which take effect only in the configuration that is
// made from the input.
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
