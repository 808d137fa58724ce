package finetune

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Request holds the command-line arguments. A list that isn't empty takes precedence over the configuration's.
type Request struct {
	ConfigFile string
	Overrides  []string
	From       []string             // inputs, in order of collection run
	PassedOver []inspect.PassedOver `json:",omitempty"` // files in input folders that are skipped
	// `_type` of the source; empty means the configuration's, or else the one that matches the input
	Source    string
	Map       []string // meanings of the input's keys: "output=response"
	Builders  []string // names or types of builders; empty means the configuration's, or those that fit the input
	Formats   []string
	Adapter   string // "files", or the name of an entry in trainer_adapters
	OutputDir string
	RunID     string
	Seed      *int64
	Compat    compat.Mode // the program whose behaviour the run reproduces
	DryRun    bool        // do everything except the training job
	Plan      bool        // predict the result, and remove all files afterwards
	Limit     int64       // at most this many examples per input; 0 means all
	planning  bool        // whether Run is carrying out a request with Plan
	Detach    bool        // don't wait for the job
	Metrics   string      // file for metrics; empty means none
	Now       string      // time returned by strftime_now in a chat template; empty means collator.template_time

	Endpoint        string        // address of a `nat serve` to collect from instead of reading inputs
	EndpointTimeout time.Duration // timeout for one answer
	Dataset         string        // file with the questions; empty means those in eval.general.dataset

	// NATConfig is the configuration that a command source copies for its program. It defaults to ConfigFile, and is
	// stored because ConfigFile is different when the run is resumed.
	NATConfig string

	// At most one of the following fields is set. It requests something other than a new run.
	Resume runfolder.Folder   `json:"-"` // continue this run
	Join   []runfolder.Folder `json:"-"` // join these finished runs, in this order
	Divide *Division          `json:"-"` // plan the shards of the run
	Shard  *Shard             `json:"-"` // build this shard of a plan
	Merge  shards.Folder      `json:"-"` // merge the shards of this plan

	Accept       []string         `json:"-"` // names in Begun.Decided whose changes are accepted; only with Resume
	KeepSplit    runfolder.Folder `json:"-"` // run whose validation side is kept; empty for a new split; only with Join
	LeaveWriting bool             `json:"-"` // divide the rows among the shards, which then write them; only with Merge
}

// Summary describes how a run ended; --json prints it.
type Summary struct {
	RunID      string             `json:"run_id"`
	Status     string             `json:"status"`
	RunDir     string             `json:"run_dir"`
	DatasetDir string             `json:"dataset_dir"`
	Chosen     string             `json:"chosen,omitempty"` // choices about reading the input and writing the output
	Counts     runfolder.Counts   `json:"counts"`
	Where      []where.Step       `json:"where,omitempty"` // number of items left after each clause of dataset.where
	Job        any                `json:"job,omitempty"`
	Error      string             `json:"error,omitempty"`
	Findings   []finding.Finding  `json:"findings,omitempty"` // findings from checking the configuration
	Accounts   []ledger.Account   `json:"accounts,omitempty"` // counts of each stage's inputs and outputs, by unit
	Sites      map[string]int64   `json:"-"`                  // number of error sites with hints, by class/source/kind
	Labels     map[string]int64   `json:"-"`                  // number of rollouts by verdict: good, bad
	Also       []string           `json:"also,omitempty"`     // other records that the input could yield
	Warnings   []string           `json:"warnings,omitempty"`
	Written    []writtenFile      `json:"files,omitempty"` // the data set's files
	Share      *Share             `json:"-"`               // set for Request.Shard if the shard has written its share
	Planned    *Planned           `json:"-"`               // set for Request.Divide
	Batches    *runfolder.Batches `json:"-"`
	Next       string             `json:"-"` // the user's next step
	NotStarted bool               `json:"-"` // the run's folder hasn't been created

	Contamination *runfolder.Contamination `json:"contamination,omitempty"`
}

// Share is a shard's part of the data set.
type Share struct {
	Rows    int64 `json:"rows"` // number of rows in all formats
	Batches int64 `json:"batches"`
}

// writtenFile is a file of the data set, for the summary.
type writtenFile struct {
	Path string `json:"path"`
	Rows int64  `json:"rows"`
}

// Failed returns the summary of a run that couldn't start, and err.
func Failed(req Request, err error) (*Summary, error) {
	return &Summary{RunID: req.RunID, Status: runfolder.Failed, Error: err.Error(), Counts: noCounts()}, err
}

func noCounts() runfolder.Counts { return runfolder.Counts{Dropped: map[ledger.Reason]int64{}} }

// loadConfig reads the configuration that the request names, or makes one from the request's flags and the shape of the
// input, and reports all findings at once.
func (p *plan) loadConfig(ctx context.Context, env stage.Env) (err error) {
	opt := config.Options{
		Types: builtin.Types(), Compat: p.Compat == compat.NAT, Run: true, Getenv: env.Getenv, Secrets: env.Secrets,
	}
	for _, o := range p.Overrides {
		opt.Overrides = append(opt.Overrides, config.Override(o))
	}
	if p.Dataset != "" && p.Endpoint == "" {
		return exit.Usagef("--dataset %s requires --endpoint, to which the questions are sent. Specify "+
			"existing runs with --from; set a command source's questions in its program's configuration", p.Dataset)
	}
	if p.keys, err = inspect.KeyMap(p.Map); err != nil {
		return err
	}
	var fs []finding.Finding
	switch {
	case p.ConfigFile != "":
		p.config, fs = config.Load(p.ConfigFile, opt)
		flags := append(keyOverrides(p.config, p.keys), builderOverrides(p.config, p.Builders)...)
		if len(flags) > 0 && !finding.Failed(fs) {
			opt.Overrides = append(opt.Overrides, flags...)
			p.config, fs = config.Load(p.ConfigFile, opt)
		}
	case len(p.From) > 0:
		text, err := p.configOfInput(ctx)
		if err != nil {
			return err
		}
		p.config, fs = config.Parse("(flags)", text, opt)
	default:
		return exit.Usagef("nothing to run: specify a configuration with --config-file, or an input with --from")
	}
	env.Findings(fs)
	if p.config == nil || finding.Failed(fs) {
		return exit.Usagef("%s", finding.Count(fs))
	}
	return nil
}

// keyOverrides returns overrides that set the keys of the configuration's source. It returns nil unless c has exactly one
// source.
func keyOverrides(c *config.Config, m map[string]string) (out []config.Override) {
	if c == nil || len(c.Sources) != 1 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		setting := strings.TrimSuffix(name, "_key") + "_key"
		out = append(out, config.Override(fmt.Sprintf("sources.%s.%s=%s", c.Sources[0].Name, setting, m[name])))
	}
	return out
}

// builderOverrides returns overrides that make the run use only the builders named with --builder. Each name selects
// the entry of trajectory_builders with that name, or else the entries of that type, or else a new entry of that type
// with its defaults.
func builderOverrides(c *config.Config, builders []string) (out []config.Override) {
	if c == nil || len(builders) == 0 {
		return nil
	}
	var used []string
	for _, b := range builders {
		is := func(what func(config.Block) string, name string) (found []string) {
			for _, block := range c.Builders {
				if what(block) == name {
					found = append(found, block.Name)
				}
			}
			return found
		}
		names := is(func(x config.Block) string { return x.Name }, b)
		if len(names) == 0 {
			names = is(func(x config.Block) string { return x.Type }, inspect.TypeOf(b))
		}
		if len(names) == 0 {
			names = []string{strings.NewReplacer("/", "_", ".", "_").Replace(b)}
			out = append(out,
				config.Override(fmt.Sprintf("trajectory_builders.%s._type=%s", names[0], inspect.TypeOf(b))))
		}
		used = append(used, names...)
	}
	return append(out, config.Override("finetuning.trajectory_builder=["+strings.Join(used, ", ")+"]"))
}

// configOfInput makes a configuration for a run that doesn't have one. It uses the run's flags, and otherwise makes
// choices that suit the input. It removes skipped files in folders from the request's inputs.
func (p *plan) configOfInput(ctx context.Context) ([]byte, error) {
	if p.Compat == compat.NAT {
		return configOfFlags(p.Builders)
	}
	r, err := inspect.Look(ctx, inspect.Options{
		Paths: p.From, Source: p.Source, Map: p.keys, Builders: p.Builders, Overrides: p.Overrides,
	})
	if err != nil {
		return nil, err
	}
	if len(r.Choice.Builders) == 0 {
		return nil, exit.Failedf("%s: %s", strings.Join(p.From, ", "), r.Choice.Why)
	}
	if len(p.Formats) > 0 {
		r.Choice.Formats = p.Formats
	}
	p.From, p.PassedOver, p.also, p.chosen = r.Inputs(), r.Passed, r.Also(), r.Line()
	return r.YAML(), nil
}

// configOfFlags makes the configuration from only the flags. That is enough in NAT's mode, which reads only NAT's
// output.
func configOfFlags(builders []string) ([]byte, error) {
	if len(builders) == 0 {
		return nil, exit.Usagef("missing builder: without --config-file, specify one with --builder, for example dpo")
	}
	var b strings.Builder
	b.WriteString("trajectory_builders:\n")
	var names []string
	for i, t := range builders {
		name := fmt.Sprintf("b%d", i)
		if !strings.ContainsAny(t, "/_") {
			name = t
		}
		names = append(names, name)
		fmt.Fprintf(&b, "  %s: {_type: %s}\n", name, inspect.TypeOf(t))
	}
	fmt.Fprintf(&b, "finetuning:\n  enabled: true\n  trajectory_builder: [%s]\n  output_dir: out\n",
		strings.Join(names, ", "))
	return []byte(b.String()), nil
}
