package command

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Factory returns this source's factory, which a configuration selects by its type.
func Factory() source.Factory {
	return source.Factory{
		Type: "command", Doc: "nat eval, or another program that writes a workflow_output.json",
		New: func() any { return new(Config) },
		Collect: func(ctx context.Context, config any, c source.Collection) ([]string, error) {
			cfg := *config.(*Config)
			if c.RunsSet {
				cfg.Runs = c.Runs
			}
			cfg.NATConfig = cmp.Or(cfg.NATConfig, c.NATConfig)
			text := fmt.Sprintf("collect: %s, %d times", cfg.Command[0], cfg.Runs)
			c.Progress(source.Progress{Step: "collect", Text: text})
			return collect(ctx, cfg, c.Dir)
		},
	}
}

// Config is `sources.<name>` with `_type: command`.
type Config struct {
	Command     []string      `yaml:"command" default:"[nat, eval, --config_file, '{config}']" doc:"program and arguments; {config} is a copy of nat_config that nat accepts, {output_dir} the run's own folder, {run} its number from 0"`
	NATConfig   string        `yaml:"nat_config" doc:"path of NAT's configuration; unset: the configuration of this run"`
	Runs        int           `yaml:"runs" default:"1" validate:"gte=1,lte=1000" doc:"number of times to run the program"`
	Timeout     time.Duration `yaml:"timeout" default:"0s" doc:"time limit per run; 0: none"`
	StopTimeout time.Duration `yaml:"stop_timeout" default:"10s" validate:"gt=0" doc:"time limit for the program to exit once it is told to stop"`
	StepTypes   []string      `yaml:"step_types" default:"[TTC_END]" doc:"event types that nat must keep in its output; the config is checked for them before nat is started"`
}
