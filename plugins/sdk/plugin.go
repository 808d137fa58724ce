package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// Plugin is a program that serves builders.
type Plugin struct {
	Name, Version string // name and version of the program; the version also applies to builders without one
	Builders      []Factory
}

// Factory creates builders of one kind. New returns a Factory.
type Factory struct {
	info builders.Info
	spec *schema.Spec
	make func(config any) (builders.Builder, error)
}

// New describes a builder whose config has type C. build receives a config that has its defaults filled in and
// satisfies the rules in its tags; an error from build becomes a finding about the whole config. New panics on a
// mistake in the tags of C, which is a bug in the program.
func New[C any](info builders.Info, build func(*C) (builders.Builder, error)) Factory {
	info.Config = new(C)
	return Factory{
		info: info,
		spec: schema.MustOf(new(C)),
		make: func(config any) (builders.Builder, error) { return build(config.(*C)) },
	}
}

// Info returns the builder's description of itself.
func (f Factory) Info() builders.Info { return f.info }

// Schema returns the JSON Schema of the builder's config.
func (f Factory) Schema() []byte { return f.spec.JSONSchema() }

// Open creates a builder from a config, a JSON or YAML object; empty means {}. It returns no builder if any finding is
// an error.
func (f Factory) Open(config []byte) (builders.Builder, []finding.Finding) {
	if len(config) == 0 {
		config = []byte("{}")
	}
	doc, found := yamldoc.Parse("config", config)
	if doc == nil || finding.Failed(found) {
		return nil, found
	}
	into := reflect.New(reflect.TypeOf(f.info.Config).Elem()).Interface()
	found = append(found, f.spec.Decode(doc, doc.Root, into, schema.Options{})...)
	if finding.Failed(found) {
		return nil, found
	}
	b, err := f.make(into)
	var placed interface{ Finding() finding.Finding }
	switch {
	case errors.As(err, &placed):
		return nil, append(found, placed.Finding())
	case err != nil:
		return nil, append(found, finding.Finding{Severity: finding.Error, Message: err.Error()})
	}
	return b, found
}

// factory returns the builder with the given name.
func (p *Plugin) factory(name string) (Factory, error) {
	var names []string
	for _, f := range p.Builders {
		if f.info.Name == name {
			return f, nil
		}
		names = append(names, f.info.Name)
	}
	return Factory{}, fmt.Errorf("plugin %q: unknown builder %q; it has %q", p.Name, name, names)
}

func (p *Plugin) describe() wire.Description {
	d := wire.Description{Name: p.Name, Version: p.Version, Minor: wire.Minor, Capabilities: []string{wire.Ping}}
	for _, f := range p.Builders {
		i := f.info
		i.Version = cmp.Or(i.Version, p.Version)
		d.Builders = append(d.Builders, wire.BuilderInfo{
			Name:         i.Name,
			Version:      i.Version,
			Stability:    i.Stability,
			Doc:          i.Doc,
			Unit:         i.Unit,
			Kinds:        i.Kinds,
			RawSteps:     i.RawSteps,
			ConfigSchema: f.Schema(),
		})
	}
	return d
}
