package exec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers"
	"github.com/nat-go/nat-go/internal/secret"
)

// Type is the adapter's `_type`.
const Type = "exec_trainer_adapter"

// backend is the adapter's name in its job references.
const backend = "exec"

// Config is `trainer_adapters.<n>` of `_type: exec_trainer_adapter`.
type Config struct {
	Reward *trainers.Reward `yaml:"reward" doc:"NAT's reward function; not read"`

	Command         []string          `yaml:"command" validate:"required,min=1" doc:"program and arguments; {dataset_dir}, {train_file}, {validation_file}, {batches}, {run_dir} and {run_id} are replaced; with several kinds of record, {demonstration_train_file} and the like"`
	Format          string            `yaml:"format" default:"trl" doc:"row format that {dataset_dir}, {train_file} and {validation_file} refer to"`
	WorkDir         string            `yaml:"workdir" doc:"working directory of the program; unset: nat-go's own"`
	Env             []string          `yaml:"env" doc:"variables of nat-go's environment that the program gets in addition to PATH, HOME and the like"`
	Set             map[string]string `yaml:"set" doc:"variables to set; with the same replacements as in command"`
	PollInterval    time.Duration     `yaml:"poll_interval" default:"1s" validate:"gt=0" doc:"longest interval between checks of the program"`
	StopTimeout     time.Duration     `yaml:"stop_timeout" default:"10s" validate:"gt=0" doc:"how long a cancelled program may take to exit before it is killed"`
	TrainingTimeout time.Duration     `yaml:"training_timeout" default:"0s" doc:"how long the program may run; 0: no limit"`
	CancelOnTimeout bool              `yaml:"cancel_on_timeout" default:"true" doc:"cancel the program once training_timeout has passed, rather than leave it running"`
}

// Limits returns the timeouts and retry counts.
func (c *Config) Limits() trainers.Limits {
	return trainers.Limits{
		Poll: c.PollInterval, StatusFailures: 3, TrainingTimeout: c.TrainingTimeout,
		CancelOnTimeout: c.CancelOnTimeout, Local: true,
	}
}

// inherited lists the variables that the program always gets from nat-go's environment.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM", "LD_LIBRARY_PATH",
	"XDG_CACHE_HOME",
}

var variable = regexp.MustCompile(`\{([a-z_]+)\}`)

// variables returns the values of the variables that are written as {name} in the command, by name.
func (c *Config) variables(data trainers.DataSet) (map[string]string, error) {
	dir, err := filepath.Abs(data.RunDir)
	if err != nil {
		return nil, err
	}
	data.RunDir = dir
	v := map[string]string{"run_dir": dir, "run_id": data.RunID}
	if f, ok := data.Formats[c.Format]; ok {
		v["dataset_dir"] = data.Path(f.Dir)
		for _, file := range f.Files {
			v[file.Kind+"_"+file.Split+"_file"] = data.Path(file.Path)
			if k := f.Kinds(trainers.Train); len(k) == 1 && file.Kind == k[0] {
				v[file.Split+"_file"] = data.Path(file.Path)
			}
		}
	}
	if data.Batches != "" {
		v["batches"] = data.Path(data.Batches)
	}
	return v, nil
}

// absent returns the reason why a known variable is unset in this run, or "" for an unknown name.
func (c *Config) absent(name string, vars map[string]string) string {
	var kinds []string
	for v := range vars {
		if kind, ok := strings.CutSuffix(v, "_train_file"); ok {
			kinds = append(kinds, kind)
		}
	}
	sort.Strings(kinds)
	if len(kinds) > 1 && (name == "train_file" || name == "validation_file") {
		return fmt.Sprintf("the run has rows of several kinds (%s): write {%s_%s}, for example", strings.Join(kinds, ", "), kinds[0], name)
	}
	for _, kind := range []string{"preference", "demonstration", "rollout"} {
		if split, ok := strings.CutPrefix(name, kind+"_"); ok &&
			slices.Contains([]string{"train_file", "validation_file"}, split) {
			return fmt.Sprintf("the run has no %s rows in the %s format", kind, c.Format)
		}
	}
	switch name {
	case "dataset_dir", "train_file":
		return fmt.Sprintf("the run has no rows in the %s format: add it to dataset.formats", c.Format)
	case "validation_file":
		return "the run has no validation file: too few rows, or dataset.split.validation is 0"
	case "batches":
		return "the run has no token batches: configure collator.tokenizer"
	}
	return ""
}

// expand replaces the variables in a string. Braces around anything else are left unchanged. A known variable that is
// unset is an error.
func (c *Config) expand(s string, vars map[string]string) (string, error) {
	var errs []error
	out := variable.ReplaceAllStringFunc(s, func(m string) string {
		name := m[1 : len(m)-1]
		if v, ok := vars[name]; ok {
			return v
		}
		if why := c.absent(name, vars); why != "" {
			errs = append(errs, fmt.Errorf("%s: %s", m, why))
		}
		return m
	})
	return out, errors.Join(errs...)
}

// command returns the command line for a run.
func (c *Config) command(vars map[string]string) ([]string, error) {
	out := make([]string, len(c.Command))
	var errs []error
	for i, arg := range c.Command {
		var err error
		out[i], err = c.expand(arg, vars)
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// secrets returns the values that must not appear in a job's status. They are the values of granted variables, which a
// program may print, and of variables whose names indicate that they are secret.
func (c *Config) secrets() *secret.Values {
	v := new(secret.Values)
	for _, name := range c.Env {
		v.Add(secret.Granted(name, os.Getenv(name))...)
	}
	for name, value := range c.Set {
		v.Add(secret.OfSetting(name, value)...)
	}
	return v
}

// environ returns the environment for a run, sorted.
func (c *Config) environ(vars map[string]string, lookup func(string) (string, bool)) ([]string, error) {
	env := map[string]string{}
	var missing []string
	for _, name := range inherited {
		if v, ok := lookup(name); ok {
			env[name] = v
		}
	}
	for _, name := range c.Env {
		v, ok := lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		env[name] = v
	}
	if missing != nil {
		return nil, fmt.Errorf("env: %s not set in nat-go's environment", strings.Join(missing, ", "))
	}
	for name, v := range c.Set {
		x, err := c.expand(v, vars)
		if err != nil {
			return nil, fmt.Errorf("set.%s: %w", name, err)
		}
		env[name] = x
	}
	out := make([]string, 0, len(env))
	for name, v := range env {
		out = append(out, name+"="+v)
	}
	sort.Strings(out)
	return out, nil
}
