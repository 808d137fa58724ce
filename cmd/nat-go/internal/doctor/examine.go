package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
)

// trainers lists the trainers that can be queried.
var trainers = []string{"trl"}

// PythonVariable is the environment variable that specifies the Python interpreter for which trainers are installed.
const PythonVariable = "NATGO_TRAINER_PYTHON"

// Request is a request to examine inputs.
type Request struct {
	Trainer   string   // name of the trainer, such as "trl"
	Paths     []string // run folders and row files
	Tokenizer string   // folder of the model to be trained; empty means the run's
	// template file, or the name of one of the tokenizer's templates; empty means the run's or the tokenizer's default
	Template string
	Serving  string        // folder from which the model is served; empty means no comparison
	Python   string        // path of the interpreter; empty means the value of PythonVariable, else python3
	Settings []string      // settings for the trainer's config, as NAME=VALUE
	Rows     int           // number of rows per file, from 1 to MaxRows
	Row      int           // row of each input to show token by token, starting at 1; 0 means none
	Timeout  time.Duration // time limit for each input
	Load     func(tokenizer string) (*tokenizer.Tokenizer, error)
}

// Examine compares, for each input, the trainer's tokens and loss mask with nat-go's. If requested, it also compares
// the folder from which the model is served with the folder used for training.
func Examine(ctx context.Context, r Request) (*Report, error) {
	switch {
	case r.Trainer != trainers[0]:
		return nil, exit.Usagef("unknown trainer %q: use %s", r.Trainer, strings.Join(trainers, " or "))
	case len(r.Paths) == 0 && r.Serving == "":
		return nil, exit.Usagef("missing input: pass a run's folder or a file of rows, or a folder with --serving")
	case r.Rows < 1 || r.Rows > MaxRows:
		return nil, exit.Usagef("--limit is %d: use a number from 1 to %d", r.Rows, MaxRows)
	case r.Timeout <= 0:
		return nil, exit.Usagef("--timeout is %s: use a time above 0, such as 10m", r.Timeout)
	}
	settings, err := settingsOf(r.Settings)
	if err != nil {
		return nil, err
	}
	inputs, err := r.inputs()
	if err != nil {
		return nil, err
	}
	cfg, err := r.collator(settings)
	if err != nil {
		return nil, err
	}
	defer cfg.Tokenizer.Close()
	report := &Report{Trainer: r.Trainer, Inputs: []Compared{}}
	t := &Trainer{
		Python: r.interpreter(), Timeout: r.Timeout, Settings: settings,
		Tokenizer: absolute(r.Tokenizer), Template: cfg.Template,
	}
	for _, in := range inputs {
		c, versions, err := compare(ctx, t, cfg, in, r.Row)
		if err != nil {
			return nil, err
		}
		report.Inputs, report.Versions = append(report.Inputs, *c), versions
	}
	if r.Serving != "" {
		if report.Serving, err = compareServing(cfg, r.Tokenizer, r.Serving, inputs); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
	}
	return report, nil
}

// settingsOf parses settings of the form NAME=VALUE. A value that is not JSON is treated as a string.
func settingsOf(list []string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range list {
		name, text, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, exit.Usagef("--set %s: write NAME=VALUE", s)
		}
		var v any
		if json.Unmarshal([]byte(text), &v) != nil {
			v = text
		}
		out[name] = v
	}
	return out, nil
}

// inputs reads the first rows of files, and of the trl files and sft batches in run folders.
func (r *Request) inputs() (out []*Input, err error) {
	for _, path := range r.Paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		found := make([]*Input, 1)
		switch {
		case info.IsDir():
			found, err = runInputs(runfolder.Folder(path), r.Rows)
		case filepath.Ext(path) == ".parquet":
			found[0], err = parquet(path, r.Rows)
		default:
			found[0], err = file(path, r.Rows)
		}
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func runInputs(dir runfolder.Folder, limit int) (out []*Input, err error) {
	for _, name := range []string{"train.jsonl", "sft.jsonl"} {
		in, err := file(filepath.Join(dir.Format("trl"), name), limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	in, err := batches(dir, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && len(in.rows) > 0 {
		out = append(out, in)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf(
			"%s has neither trl rows nor sft batches: add trl to dataset.formats or set collator.tokenizer", dir)
	}
	return out, nil
}

// noLimit is a max_length that no row reaches.
const noLimit = 1 << 20

// collator returns the settings for building nat-go's rows. They come from the first run folder whose configuration
// names a tokenizer; otherwise, they are the defaults. The user's max_length for the trainer takes precedence.
// collator also sets the request's tokenizer and template from that configuration, unless flags name others.
func (r *Request) collator(settings map[string]any) (cfg collator.Config, err error) {
	cfg.MaxLength = noLimit
	for _, path := range r.Paths {
		c, fs := config.Load(runfolder.Folder(path).Config(), config.Options{Types: builtin.Types()})
		if c == nil || finding.Failed(fs) || c.Collator.Tokenizer == "" {
			continue
		}
		if cfg, err = collate.CollatorConfig(c.Collator, 0); err != nil {
			return cfg, exit.With(exit.Usage, err)
		}
		r.Tokenizer = cmp.Or(r.Tokenizer, c.Collator.Tokenizer)
		r.Template = cmp.Or(r.Template, c.Collator.Template)
		break
	}
	if limit, set := settings["max_length"]; set {
		cfg.MaxLength, cfg.MaxPairLength = noLimit, 0
		if n, ok := limit.(float64); ok && n >= 2 && n < noLimit {
			cfg.MaxLength = int(n)
		}
	}
	if r.Tokenizer == "" {
		return cfg, exit.Usagef("missing tokenizer: specify the folder of the model to be trained with --tokenizer")
	}
	if cfg.Tokenizer, err = r.Load(r.Tokenizer); err != nil {
		return cfg, err
	}
	if cfg.Template, err = collator.TemplateText(cfg.Tokenizer.Config, r.Template); err != nil {
		return cfg, exit.With(exit.Usage, err)
	}
	return cfg, nil
}

// interpreter returns the Python to use.
func (r *Request) interpreter() string {
	if p := cmp.Or(r.Python, os.Getenv(PythonVariable)); p != "" {
		return absolute(p)
	}
	return "python3"
}

// absolute makes a path valid in any working directory. It doesn't change a bare name that isn't a file, because that
// may be found on PATH.
func absolute(path string) string {
	if !strings.ContainsRune(path, filepath.Separator) {
		if _, err := os.Stat(path); err != nil {
			return path
		}
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
