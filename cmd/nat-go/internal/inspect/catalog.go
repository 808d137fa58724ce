package inspect

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
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
func (c *Catalog) Names() (names []string) {
	for _, p := range c.Configured {
		names = append(names, p.Name)
	}
	for _, p := range plugins.Installed() {
		if !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Named is a plugin that the user named, alone or with one of its builders.
type Named struct {
	Spec    host.Spec
	Builder string // empty if no builder was named
	name    string // as the user wrote it
	lock    *plugins.Lock
}

// Program resolves names that don't need a catalog. "", builtin.PluginName and the names of built-in builders refer to
// this program itself, and a path refers to the program at that path. For any other name, Program returns nil.
func Program(name string, args []string) (*Named, error) {
	for _, b := range builtin.Builders() {
		if name == "" || name == builtin.PluginName || b.Info().Name == name {
			spec := host.Spec{
				Name:  builtin.PluginName,
				Self:  true,
				Args:  []string{builtin.ServeCommand},
				Known: explain.Known,
			}
			return &Named{Spec: spec, Builder: strings.TrimPrefix(name, builtin.PluginName), name: name}, nil
		}
	}
	info, err := os.Stat(name)
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") { // a path, because a plugin's name can't have this form
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
