package config

import (
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/secret"
)

// Config is a loaded configuration. It is valid if no finding is an error.
type Config struct {
	Sources    []Block // in YAML order, like all blocks
	Plugins    []Plugin
	Builders   []Block
	Trainers   []Block
	Adapters   []Block
	Collator   Collator
	Dataset    Dataset
	Finetuning Finetuning
	Limits     Limits
	Eval       Eval

	doc     *yamldoc.Document
	known   *secret.Values
	passed  []string        // names of skipped sections
	present map[string]bool // sections present in the YAML
}

// Types are the available component types, by `_type`.
type Types struct {
	Sources, Builders, Trainers, Adapters map[string]Component

	Formats   []string                 // row formats; nil means that formats aren't checked
	HasPlugin func(plugin string) bool // reports whether a plugin exists outside the plugins section; nil means never
}

// Component is a component type.
type Component struct {
	Doc    string
	Config any          // a struct or a pointer to one, with the tags defined by builders/schema
	Spec   *schema.Spec // set instead of Config for a type whose schema came from a plugin
	Steps  []string     // event types that a builder needs in NAT's output, such as TTC_END
}

// Options configures Load and Parse.
type Options struct {
	Types     Types
	Compat    bool // for --compat nat, treat unset variables as empty, and only warn about unknown keys in components
	Overrides []Override
	Run       bool                             // whether a run is about to start, for which fine-tuning must be enabled
	Getenv    func(name string) (string, bool) // nil means the process's environment
	Secrets   *secret.Values                   // receives every value that must not be shown; may be nil
}

// Block is one entry of a component section.
type Block struct {
	Section string // name of the section, such as "trajectory_builders"
	Name    string
	Type    string       // its `_type`, such as "dpo_traj_builder" or "acme/curriculum"
	Config  any          // pointer to a filled struct; nil if the type doesn't have one
	Spec    *schema.Spec // nil if the type is unknown, or belongs to a plugin whose schema isn't known yet

	key, node *yaml.Node
	doc       *yamldoc.Document
	unknown   finding.Severity
}

// typeKeys lists the keys under which a component's type may be given.
var typeKeys = []string{"_type", "type"}

// Pointer returns the block's JSON pointer.
func (b *Block) Pointer() string { return yamldoc.Pointer(b.Section, b.Name) }

func (b *Block) options() schema.Options {
	return schema.Options{Pointer: b.Pointer(), At: b.key, Unknown: b.unknown, Skip: typeKeys}
}

// Check checks the block against a schema.
func (b *Block) Check(spec *schema.Spec) []finding.Finding {
	return spec.Check(b.doc, b.node, b.options())
}

// JSON returns the block, with the schema's defaults, as canonical JSON for the builder's process. The JSON contains
// secrets.
func (b *Block) JSON(spec *schema.Spec) ([]byte, []finding.Finding) {
	return spec.JSON(b.doc, b.node, b.options())
}

// Adopt attaches findings to the block. The pointers of the findings are relative to the block, as in findings from a
// plugin.
func (b *Block) Adopt(fs []finding.Finding) []finding.Finding {
	return b.doc.Adopt(b.node, b.key, b.Pointer(), fs)
}

// Report attaches a finding to the block's name.
func (b *Block) Report(f finding.Finding) finding.Finding { return b.doc.Report(b.key, b.Pointer(), f) }

// Place attaches a finding to a setting's value or, if the YAML doesn't set it, to the nearest enclosing section.
func (c *Config) Place(f finding.Finding, path ...string) finding.Finding {
	for n := len(path); n > 0; n-- {
		key, value := yamldoc.LookupPair(c.doc.Root, path[:n]...)
		if value == nil {
			continue
		}
		if n < len(path) && key != nil {
			value = key
		}
		return c.doc.Report(value, yamldoc.Pointer(path...), f)
	}
	return c.doc.Report(c.doc.Root, yamldoc.Pointer(path...), f)
}

// Has reports whether the YAML or an override sets a path, as in Has("dataset", "split", "validation").
func (c *Config) Has(path ...string) bool { return yamldoc.Lookup(c.doc.Root, path...) != nil }

// Selected lists the builders that finetuning.trajectory_builder names, in section order.
func (c *Config) Selected() []Block {
	return slices.DeleteFunc(slices.Clone(c.Builders), func(b Block) bool {
		return !slices.Contains(c.Finetuning.TrajectoryBuilder, b.Name)
	})
}

// Trainer returns the trainer that finetuning names, or nil if there is none.
func (c *Config) Trainer() *Block { return find(c.Trainers, c.Finetuning.Trainer) }

// filesAdapter is the name that means no adapter, so that the data set is written as files. An entry of
// trainer_adapters with this name takes precedence.
const filesAdapter = "files"

// Adapter returns the entry of trainer_adapters that finetuning names. It returns nil, meaning files, if there is none.
func (c *Config) Adapter() *Block { return find(c.Adapters, c.Finetuning.TrainerAdapter) }

func find(blocks []Block, name string) *Block {
	for i := range blocks {
		if name != "" && blocks[i].Name == name {
			return &blocks[i]
		}
	}
	return nil
}
