package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/plugins/host"
)

// Catalog finds the configured and the installed plugins. Lock is the content of their lock file.
type Catalog struct {
	Configured []config.Plugin
	Lock       *plugins.Lock
}

// Open reads the plugins in a configuration and the lock file in the configuration's folder. If configFile is empty, it
// reads the current folder's lock file. If it can't read the configuration, it returns findings and an error.
func Open(configFile string, o config.Options) (*Catalog, []finding.Finding, error) {
	dir := "."
	c := &Catalog{}
	if configFile != "" {
		dir = filepath.Dir(configFile)
		conf, found := config.Load(configFile, o)
		if conf == nil {
			return nil, found, exit.Usagef("%s can't be read", configFile)
		}
		c.Configured = conf.Plugins
	}
	var err error
	if c.Lock, err = plugins.ReadLock(dir); err != nil {
		return nil, nil, exit.With(exit.Environment, err)
	}
	return c, nil, nil
}

// Names lists the configuration's plugins, followed by the installed ones.
func (c *Catalog) Names() []string {
	names := lists.Map(c.Configured, func(p config.Plugin) string { return p.Name })
	installed := lists.Map(plugins.Installed(), func(p plugins.Found) string { return p.Name })
	return lists.Unique(append(names, installed...))
}

// Named is a plugin that the user named, alone or with one of its builders.
type Named struct {
	Spec    host.Spec
	Builder string // empty if no builder was named
	name    string // as the user wrote it
	lock    *plugins.Lock
}

// Program resolves names that don't need a catalog. The empty name, builtin.PluginName and the names of built-in
// builders refer to this program. A path refers to the program at that path. For any other name, Program returns nil.
func Program(name string, args []string) (*Named, error) {
	if _, ok := builtin.Builder(name); ok || name == "" || name == builtin.PluginName {
		spec := host.Spec{
			Name: builtin.PluginName, Self: true, Args: []string{builtin.ServeCommand}, Known: explain.Known,
		}
		return &Named{Spec: spec, Builder: strings.TrimPrefix(name, builtin.PluginName), name: name}, nil
	}
	info, err := os.Stat(name)
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") { // the name of a plugin can't have this form
		switch {
		case err != nil:
			return nil, exit.Usagef("cannot find the program %s", name)
		case info.IsDir():
			return nil, exit.Usagef("%s is a folder: specify the program in it", name)
		}
	}
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	base := strings.TrimPrefix(filepath.Base(name), "nat-go-builder-")
	return &Named{
		Spec: host.Spec{Name: base, Path: path, Args: args, StartTimeout: time.Minute, Known: explain.Known},
		name: name,
	}, nil
}

// Plugin finds a plugin by its name. The name may be followed by a slash and one of the plugin's builders.
func (c *Catalog) Plugin(name string) (*Named, error) {
	plugin, builder, _ := strings.Cut(name, "/")
	spec, err := plugins.Spec(plugin, c.Configured, c.Lock)
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return &Named{Spec: spec, Builder: builder, name: name, lock: c.Lock}, nil
}

// Start starts the plugin, which must match the lock.
func (n *Named) Start(ctx context.Context, log zerolog.Logger) (*host.Plugin, error) {
	p, err := host.Start(ctx, n.Spec, log)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if err := n.lock.Check(n.Spec.Name, p); err != nil {
		p.Close()
		return nil, exit.With(exit.Environment, err)
	}
	return p, nil
}

// Among returns the builder that the user named along with the plugin or, failing that, the builder in asked. If both
// are empty, it returns the plugin's only builder, or "" if the plugin doesn't have exactly one.
func (n *Named) Among(p *host.Plugin, asked string) string {
	if n.Builder != "" {
		return n.Builder
	}
	if infos := p.Describe(); asked == "" && len(infos) == 1 {
		return infos[0].Name
	}
	return asked
}

// Try is a trial of a builder on a few examples.
type Try struct {
	Builder  string
	Settings []byte // JSON
	From     string // file of examples
	Most     int    // maximum number of examples to use; 0 means all
}

// Run prints the source's drops and the builder's output for the examples to w, as JSON lines. It prints the builder's
// errors to wrong.
func (t *Try) Run(ctx context.Context, p *host.Plugin, w, wrong io.Writer) error {
	info, err := p.Builder(t.Builder)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	groups, drops, err := plugins.Groups(ctx, builtin.Sources(), t.From, info, t.Most)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if err := plugins.PrintDrops(w, drops); err != nil {
		return err
	}
	results, err := host.Build(ctx, p, t.Builder, t.Settings, groups)
	if _, ok := errors.AsType[*host.ConfigError](err); ok {
		return exit.With(exit.Usage, err)
	}
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	failed := 0
	for _, r := range results {
		if err := plugins.Print(w, r); err != nil {
			return err
		}
		if r.Err != nil {
			failed++
			fmt.Fprintln(wrong, r.Err)
		}
	}
	if failed > 0 {
		return exit.Failedf("builder failed on %d of %d groups", failed, len(results))
	}
	return nil
}

// Plugin is a plugin's description for printing.
type Plugin struct {
	plugins.Found
	Locked *plugins.Entry `json:"locked,omitempty"`
	State  string         `json:"state"` // "locked", "not locked", "changed", or the problem
}

// Plugins lists the plugins and whether they match the lock. It doesn't start any of them.
func (c *Catalog) Plugins(ctx context.Context) []Plugin {
	return lists.Map(c.Names(), func(name string) Plugin { return c.plugin(ctx, name) })
}

func (c *Catalog) plugin(ctx context.Context, name string) Plugin {
	v := Plugin{Found: plugins.Found{Name: name}, Locked: c.Lock.Plugins[name], State: "not locked"}
	found, err := plugins.Locate(plugins.Configured(name, c.Configured))
	if err != nil {
		v.State = err.Error()
		return v
	}
	v.Found = found
	spec, err := plugins.Spec(name, c.Configured, c.Lock)
	if err != nil {
		v.State = err.Error()
		return v
	}
	if v.Locked != nil {
		v.State = "locked"
		sum, beside, err := plugins.Sums(ctx, spec)
		if err != nil || sum != spec.SHA256 || !maps.Equal(beside, spec.Beside) {
			v.State = "changed"
		}
	}
	return v
}

// LockPlugin starts a plugin to ask for its description, and adds the plugin to the lock, which the caller must write.
func (c *Catalog) LockPlugin(ctx context.Context, name string) error {
	spec, err := plugins.Spec(name, c.Configured, nil) // nil ignores the current lock
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	sum, beside, err := plugins.Sums(ctx, spec)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	spec.SHA256 = cmp.Or(spec.SHA256, sum) // ensures that the program that is started is the one that is locked
	spec.Beside = beside
	spec.Instances = 1
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer p.Close()
	c.Lock.Add(spec, p, sum, beside)
	return nil
}

// CheckBlocks checks the configuration's entries for plugins' builders against the builders' schemas. A schema comes
// from the lock or from the plugin, which is started for this purpose and may report additional findings.
func (c *Catalog) CheckBlocks(ctx context.Context, conf *config.Config) (found []finding.Finding) {
	for i := range conf.Builders {
		b := &conf.Builders[i]
		if b.Spec != nil {
			continue
		}
		fs, err := c.checkBlock(ctx, b, conf.Plugins)
		if err != nil {
			f := finding.Finding{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()}
			fs = []finding.Finding{b.Report(f)}
		}
		found = append(found, fs...)
	}
	return found
}

func (c *Catalog) checkBlock(
	ctx context.Context, b *config.Block, configured []config.Plugin,
) ([]finding.Finding, error) {
	plugin, builder, _ := strings.Cut(b.Type, "/")
	if text, ok := c.Lock.SchemaOf(plugin, builder); ok {
		return checkSchema(b, text)
	}
	p, err := c.start(ctx, plugin, configured)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	info, err := p.Builder(builder)
	if err != nil {
		return nil, err
	}
	found, err := checkSchema(b, info.ConfigSchema)
	if err != nil || finding.Failed(found) {
		return found, err
	}
	full, err := schema.FromJSONSchema(info.ConfigSchema)
	if err != nil {
		return nil, err
	}
	settings, _ := b.JSON(full)
	own, err := p.Validate(ctx, builder, settings)
	if err != nil {
		return nil, err
	}
	return append(found, b.Adopt(plugins.Findings(own))...), nil
}

func checkSchema(b *config.Block, text []byte) ([]finding.Finding, error) {
	spec, err := schema.FromJSONSchema(text)
	if err != nil {
		return nil, err
	}
	return b.Check(spec), nil
}

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
		Stability: b.Stability, Unit: b.Unit.String(), Kinds: lists.Map(b.Kinds, builders.Kind.String), Doc: b.Doc,
	}
	if plugin == builtin.PluginName {
		v.Type = b.Name
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
	views := lists.Map(infos, func(b host.BuilderInfo) Builder { return viewOf(plugin, b) })
	return &Description{Builders: views, Plugin: p.Name(), Version: p.Version()}, nil
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
