package command

import "time"

// Config is `sources.<name>` with `_type: command`.
type Config struct {
	Command     []string      `yaml:"command" default:"[nat, eval, --config_file, '{config}']" doc:"program and arguments; {config} is a copy of nat_config that nat accepts, {output_dir} the run's own folder, {run} its number from 0"`
	NATConfig   string        `yaml:"nat_config" doc:"NAT's configuration; unset: that of this run"`
	Runs        int           `yaml:"runs" default:"1" validate:"gte=1,lte=1000" doc:"how often the program is run"`
	Timeout     time.Duration `yaml:"timeout" default:"0s" doc:"limit for one run; 0: none"`
	StopTimeout time.Duration `yaml:"stop_timeout" default:"10s" validate:"gt=0" doc:"how long the program has to end when the collection is interrupted"`
	StepTypes   []string      `yaml:"step_types" default:"[TTC_END]" doc:"event types that nat must keep in its output; checked before it is started"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Command: []string{"nat", "eval", "--config_file", "{config}"}, Runs: 1, StopTimeout: 10 * time.Second, StepTypes: []string{"TTC_END"}}
}
