package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/plugins/host"
)

// Builder is a builder's description for printing.
type Builder struct {
	Type      string          `json:"type"` // value of _type that selects the builder
	Plugin    string          `json:"plugin"`
	Version   string          `json:"version"`
	Stability string          `json:"stability"`
	Unit      string          `json:"unit"`
	Kinds     []string        `json:"kinds"`
	Doc       string          `json:"doc"`
	Schema    json.RawMessage `json:"config_schema,omitempty"`
}

func viewOf(plugin string, b host.BuilderInfo) Builder {
	v := Builder{
		Type: plugin + "/" + b.Name, Plugin: plugin, Version: b.Version,
		Stability: b.Stability, Unit: b.Unit.String(), Doc: b.Doc,
	}
	if plugin == builtin.PluginName {
		v.Type = b.Name
	}
	for _, k := range b.Kinds {
		v.Kinds = append(v.Kinds, k.String())
	}
	if json.Valid(b.ConfigSchema) {
		v.Schema = b.ConfigSchema
	}
	return v
}

// List contains all available builders and, for each plugin that failed, the reason.
type List struct {
	Builders []Builder         `json:"builders"`
	Failed   map[string]string `json:"failed,omitempty"`
	plugins  []string
}

// Builders lists the built-in builders, and starts every plugin to list its builders.
func (c *Catalog) Builders(ctx context.Context) *List {
	l := &List{Failed: map[string]string{}, plugins: c.Names()}
	for _, f := range builtin.Builders() {
		i := f.Info()
		l.Builders = append(l.Builders, viewOf(builtin.PluginName, host.BuilderInfo{
			Name: i.Name, Version: i.Version, Stability: i.Stability, Doc: i.Doc, Unit: i.Unit, Kinds: i.Kinds,
		}))
	}
	for _, name := range l.plugins {
		views, err := c.ask(ctx, name)
		if err != nil {
			l.Failed[name] = err.Error()
		}
		l.Builders = append(l.Builders, views...)
	}
	return l
}

// start starts one process of a plugin.
func (c *Catalog) start(ctx context.Context, name string, configured []config.Plugin) (*host.Plugin, error) {
	spec, err := plugins.Spec(name, configured, c.Lock)
	if err != nil {
		return nil, err
	}
	spec.Instances = 1
	return host.Start(ctx, spec, zerolog.Nop())
}

// ask starts a plugin to list its builders. If the plugin doesn't match the lock, it returns the builders together with
// an error.
func (c *Catalog) ask(ctx context.Context, name string) (views []Builder, err error) {
	p, err := c.start(ctx, name, c.Configured)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	for _, b := range p.Describe() {
		v := viewOf(name, b)
		v.Schema = nil
		views = append(views, v)
	}
	return views, c.Lock.Check(name, p)
}

// Text prints one line per builder to w, and one per failed plugin to failed.
func (l *List) Text(w, failed io.Writer) error {
	t := &columns.Table{}
	for _, b := range l.Builders {
		t.Add(terminal.Line(b.Type), terminal.Line(b.Version), b.Stability, b.Unit, terminal.Line(b.Doc))
	}
	if _, err := io.WriteString(w, t.Text(terminal.Width(w))); err != nil {
		return err
	}
	for _, name := range l.plugins {
		if why := l.Failed[name]; why != "" {
			fmt.Fprintf(failed, "plugin %s: %s\n", name, why)
		}
	}
	return nil
}

// Description is a plugin's description of all its builders, or of the one that the user named.
type Description struct {
	Builders []Builder `json:"builders"`
	Plugin   string    `json:"plugin"`
	Version  string    `json:"version"`
}

// Describe returns the description of the builder that the user named, or of all builders of p, which Start started.
func (n *Named) Describe(p *host.Plugin) (*Description, error) {
	infos := p.Describe()
	if n.Builder != "" {
		one, err := p.Builder(n.Builder)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		infos = []host.BuilderInfo{one}
	}
	plugin, _, _ := strings.Cut(n.name, "/")
	if p.Name() == builtin.PluginName || strings.ContainsRune(n.name, filepath.Separator) && n.Builder == "" {
		plugin = p.Name()
	}
	d := &Description{Plugin: p.Name(), Version: p.Version()}
	for _, b := range infos {
		d.Builders = append(d.Builders, viewOf(plugin, b))
	}
	return d, nil
}

// Text prints the description as text.
func (d *Description) Text(w io.Writer) error {
	var b strings.Builder
	for i := range d.Builders {
		d.Builders[i].text(&b, terminal.Width(w))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (v *Builder) text(b *strings.Builder, width int) {
	fmt.Fprintf(b, "%s %s (%s)\n", v.Type, v.Version, v.Stability)
	about := &columns.Table{Indent: 2}
	about.Add(terminal.Line(v.Doc))
	about.Add(fmt.Sprintf("works on one %s at a time; emits %s", v.Unit, strings.Join(v.Kinds, ", ")))
	b.WriteString(about.Text(width))
	spec, err := schema.FromJSONSchema(v.Schema)
	if err != nil || len(spec.Fields) == 0 {
		return
	}
	b.WriteString("  settings:\n")
	t := &columns.Table{Indent: 4}
	addSettings(t, spec, "")
	b.WriteString(t.Text(width))
}

// addSettings adds the keys of an object and of nested objects, each with its path, such as detect.match[].tool.
func addSettings(t *columns.Table, spec *schema.Spec, prefix string) {
	for _, f := range spec.Fields {
		key, def := prefix+f.Name, ""
		if text := f.Spec.DefaultText(); text != "" {
			def = " (default " + text + ")"
		}
		t.Add(terminal.Line(key), terminal.Line(f.Spec.Doc+def))
		addSettings(t, f.Spec, key+".")
		if f.Spec.Elem != nil {
			addSettings(t, f.Spec.Elem, key+"[].")
		}
	}
}
