package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/doctor"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
)

// doctorTrainers are the trainers that can be asked.
var doctorTrainers = []string{"trl"}

// trainerPython names the Python that trainers are installed in.
const trainerPython = "NATGO_TRAINER_PYTHON"

// doctorFlags are the flags of `nat-go doctor`.
type doctorFlags struct {
	tokenizer, template, serving, python string
	settings                             []string
	rows, row                            int
	timeout                              time.Duration
	asJSON                               bool
}

func newDoctorCmd() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor TRAINER [RUN | FILE ...]",
		Short: "Compare what a trainer trains of a data set with what nat-go would",
		Long: `Compare what a trainer trains of a data set with what nat-go would.

TRAINER is trl. Its own classes, in your Python, tokenise the first rows of a run's data set (trl rows and sft batches), or of
files: JSON lines with messages, prompt and completion, or prompt, chosen and rejected; token rows (input_ids, labels) as JSON
lines or Parquet. Ids and masks are compared with those of our token rows, and what differs is said in words: "TRL trains 212
tokens here that we don't: tool results". A difference is no verdict: whether those tokens should be trained is yours to say.

With --serving the folder that the model is served from is compared with the one it is trained with: template, vocabulary,
special tokens, stop tokens. That needs no Python, and no rows.

The exit code is 0 where nothing differs, 1 where something does, 3 where the trainer can't be asked.`,
		Example: `  nat-go doctor trl out/RUN
  nat-go doctor trl train.jsonl --tokenizer models/qwen --set max_length=4096 --row 3
  nat-go doctor trl out/RUN --python venv/bin/python --serving /srv/models/qwen-tuned`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), signalsOf...)
			defer stop()
			report, err := f.examine(ctx, args[0], args[1:])
			if err != nil {
				return err
			}
			if f.asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				err = report.Text(cmd.OutOrStdout(), colored(cmd.OutOrStdout()))
			}
			if err == nil && !report.Sound() {
				return exit.With(exit.Failed, nil) // it has all been said
			}
			return err
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.tokenizer, "tokenizer", "", "Hugging Face folder of the model to be trained; default: the run's collator.tokenizer")
	s.StringVar(&f.template, "template", "", "chat template file, or the name of one of the tokenizer's; default: the run's, or the tokenizer's own")
	s.StringVar(&f.serving, "serving", "", "folder the model is served from, to compare template, vocabulary and stop tokens with")
	s.StringVar(&f.python, "python", "", "Python that the trainer is installed in; default: "+trainerPython+", or python3")
	s.StringArrayVar(&f.settings, "set", nil, "setting of the trainer's config (SFTConfig, DPOConfig) as NAME=VALUE, the value as JSON or text (repeatable)")
	s.IntVar(&f.rows, "rows", doctor.MaxRows, "look at this many rows of each file; at most 100")
	s.IntVar(&f.row, "row", -1, "show this row token by token; counted from 0")
	s.DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long the trainer may take for a file")
	s.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	return cmd
}

func (f *doctorFlags) examine(ctx context.Context, trainer string, paths []string) (*doctor.Report, error) {
	switch {
	case trainer != doctorTrainers[0]:
		return nil, exit.Usagef("no trainer %q can be asked: write %s", trainer, strings.Join(doctorTrainers, " or "))
	case len(paths) == 0 && f.serving == "":
		return nil, exit.Usagef("name a run's folder or a file of rows, or a folder with --serving")
	case f.rows < 1 || f.rows > doctor.MaxRows:
		return nil, exit.Usagef("--rows is %d: write a number from 1 to %d", f.rows, doctor.MaxRows)
	case f.timeout <= 0:
		return nil, exit.Usagef("--timeout is %s: write a time above 0, such as 10m", f.timeout)
	}
	settings, err := settingsOf(f.settings)
	if err != nil {
		return nil, err
	}
	inputs, err := f.inputs(paths)
	if err != nil {
		return nil, err
	}
	cfg, err := f.collator(paths, settings)
	if err != nil {
		return nil, err
	}
	defer cfg.Tokenizer.Close()
	report := &doctor.Report{Trainer: trainer, Inputs: []doctor.Compared{}}
	t := &doctor.Trainer{Python: f.interpreter(), Timeout: f.timeout, Settings: settings, Tokenizer: absolute(f.tokenizer), Template: cfg.Template}
	for _, in := range inputs {
		c, versions, err := doctor.Compare(ctx, t, cfg, in, f.row)
		if err != nil {
			return nil, err
		}
		report.Inputs, report.Versions = append(report.Inputs, *c), versions
	}
	if f.serving != "" {
		if report.Serving, err = doctor.Serve(cfg, f.tokenizer, f.serving, inputs); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
	}
	return report, nil
}

// settingsOf reads NAME=VALUE.
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

// inputs opens files, and what a run folder has that the trainer reads.
func (f *doctorFlags) inputs(paths []string) (out []*doctor.Input, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		var found []*doctor.Input
		if info.IsDir() {
			found, err = runInputs(runfolder.Folder(path), f.rows)
		} else {
			var in *doctor.Input
			if filepath.Ext(path) == ".parquet" {
				in, err = doctor.Parquet(path, f.rows)
			} else {
				in, err = doctor.File(path, f.rows)
			}
			found = []*doctor.Input{in}
		}
		if err != nil {
			return nil, exit.With(exit.Usage, err)
		}
		out = append(out, found...)
	}
	return out, nil
}

func runInputs(dir runfolder.Folder, limit int) (out []*doctor.Input, err error) {
	for _, name := range []string{"train.jsonl", "sft.jsonl"} {
		in, err := doctor.File(filepath.Join(dir.Format("trl"), name), limit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	in, err := doctor.Batches(dir, limit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && in.Len() > 0 {
		out = append(out, in)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has neither trl rows nor sft batches: add trl to dataset.formats or name a collator.tokenizer", dir)
	}
	return out, nil
}

// collator is how our rows are made: as in the run, where a run's folder is named, with the flags on top.
func (f *doctorFlags) collator(paths []string, settings map[string]any) (cfg collator.Config, err error) {
	cfg.MaxLength = 1 << 20 // no limit
	if n, ok := settings["max_length"].(float64); ok && n >= 2 && n < 1<<20 {
		cfg.MaxLength = int(n)
	}
	for _, path := range paths {
		c, fs := config.Load(runfolder.Folder(path).Config(), config.Options{Types: builtin.Types()})
		if c == nil || finding.Failed(fs) || c.Collator.Tokenizer == "" {
			continue
		}
		if cfg, err = finetune.CollatorConfig(c.Collator, 0); err != nil {
			return cfg, exit.With(exit.Usage, err)
		}
		if f.tokenizer == "" {
			f.tokenizer = c.Collator.Tokenizer
		}
		if f.template == "" {
			f.template = c.Collator.Template
		}
		break
	}
	if f.tokenizer == "" {
		return cfg, exit.Usagef("name the folder of the model to be trained with --tokenizer")
	}
	if cfg.Tokenizer, err = loadTokenizer(f.tokenizer); err != nil {
		return cfg, err
	}
	if cfg.Template, err = collator.TemplateText(cfg.Tokenizer.Config, f.template); err != nil {
		return cfg, exit.With(exit.Usage, err)
	}
	return cfg, nil
}

// interpreter is the Python to ask.
func (f *doctorFlags) interpreter() string {
	for _, p := range []string{f.python, os.Getenv(trainerPython)} {
		if p != "" {
			return absolute(p)
		}
	}
	return "python3"
}

// absolute is a path that holds in other folders, too. A bare name is left to be found on PATH.
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
