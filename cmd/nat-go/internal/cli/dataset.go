package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/objects"
)

// rowLimits adds the flags for the maximum size of a row, and returns the limits that the flags set.
func rowLimits(cmd *cobra.Command) *dataset.Limits {
	limits := dataset.DefaultLimits
	f := cmd.Flags()
	f.Int64Var(&limits.Bytes, "max-row-bytes", limits.Bytes, "reject rows with more bytes than this")
	f.Int64Var(&limits.Values, "max-row-values", limits.Values, "reject rows with more values than this")
	return &limits
}

// findDataset finds the data set that a command's argument names.
func findDataset(path string, limits dataset.Limits) (*dataset.Place, error) {
	if limits.Bytes < 1 || limits.Bytes > math.MaxInt32 || limits.Values < 1 {
		return nil, exit.Usagef("--max-row-bytes must be from 1 to %d, --max-row-values at least 1", math.MaxInt32)
	}
	if objects.Is(path) {
		return nil, exit.Usagef("this command cannot read from object storage: copy %s to a local disk", path)
	}
	p, err := dataset.Find(path, limits)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("cannot find %s", path)
	}
	return p, exit.Default(exit.Failed, err)
}

// findTexts is like findDataset, for commands that need text rows.
func findTexts(path string, limits dataset.Limits) (*dataset.Place, error) {
	p, err := findDataset(path, limits)
	switch {
	case err != nil || len(p.Texts()) > 0:
		return p, err
	case len(p.Tokens()) > 0:
		return nil, exit.Failedf("%s holds only token rows, which contain no text: specify the run's folder, whose records contain it", path)
	}
	return nil, exit.Failedf("no rows in %s", path)
}

// findRun returns the run in a folder, which must have a record log. If a command was killed while it moved files
// into place, findRun completes that step.
func findRun(path string) (*dataset.Place, error) {
	p := &dataset.Place{Run: runfolder.Folder(path)}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("cannot find %s", path)
	} else if err == nil && !info.IsDir() || p.Log() == "" {
		return nil, exit.Usagef("%s is not a run's folder: specify <output_dir>/<run_id>, which has a record log", path)
	}
	p.Run.Recover()
	return p, nil
}

func newDatasetStatsCmd() *cobra.Command {
	var source string
	var limits *dataset.Limits
	cmd := &cobra.Command{
		Use:   "stats PATH",
		Short: "Describe a data set: margins, lengths, pairs per turn, repeats, leakage, drops",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			render, err := renderer(source)
			if err != nil {
				return err
			}
			all, err := measure(args[0], render, *limits)
			if err != nil {
				return err
			}
			return printResult(cmd, map[string]any{"stats": all}, func(w io.Writer) error {
				return lists.Each(all, func(s *dataset.Stats) error { return s.Text(w, explain.Code) })
			})
		},
	}
	cmd.Flags().StringVar(&source, "template", "", "chat template file or model folder; count what the template omits")
	limits = rowLimits(cmd)
	return cmd
}

// renderer compiles the template in a file or in a model's folder. It returns nil if path is empty.
func renderer(path string) (*turns.Renderer, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readTemplate(path)
	if err != nil {
		return nil, err
	}
	at, err := collator.ParseTemplateTime(collator.DefaultTemplateTime)
	if err != nil {
		return nil, err
	}
	s := turns.Settings{Now: at}
	if c, err := tokenizer.ReadConfig(path); err == nil { // only a model's folder specifies special tokens
		s.Vars = collator.TemplateVars(c, nil)
	}
	r, err := turns.New(text, s)
	if err != nil {
		err = exit.Usagef("template %s: %w", path, err)
	}
	return r, err
}

// measure returns the statistics of the records in the run at path. If path isn't a run, it returns statistics of the
// rows there for each format.
func measure(path string, render *turns.Renderer, limits dataset.Limits) ([]*dataset.Stats, error) {
	if p, err := findRun(path); err == nil {
		s, err := p.Measure(render, os.TempDir())
		return []*dataset.Stats{s}, exit.Default(exit.Failed, err)
	}
	p, err := findTexts(path, limits)
	if err != nil {
		return nil, err
	}
	var all []*dataset.Stats
	for _, f := range p.Texts() {
		s, err := dataset.MeasureRows(f, render, os.TempDir())
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func newDatasetVerifyCmd() *cobra.Command {
	var tokens string
	var limits *dataset.Limits
	cmd := &cobra.Command{
		Use:   "verify PATH",
		Short: "Reread a data set from its files alone and report any problems",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := findDataset(args[0], *limits)
			// A run may have token batches but no text rows.
			if run := runfolder.Folder(args[0]); err != nil && run.IsRun() {
				p, err = &dataset.Place{Run: run}, nil
			}
			if err != nil {
				return err
			}
			r, err := verify(p)
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			if err := verifyBatches(r, p.Run, tokens); err != nil {
				return err
			}
			return printReport(cmd, r, r.Text, r.Errors == 0)
		},
	}
	cmd.Flags().StringVar(&tokens, "tokenizer", "", "tokenizer of the token batches; default: the one in the run's config.yml")
	limits = rowLimits(cmd)
	return cmd
}

// verify checks the rows of a data set and, in a run's folder, the other files and the record log.
func verify(p *dataset.Place) (*dataset.Report, error) {
	if p.Run == "" {
		return dataset.Verify(p, nil, os.TempDir())
	}
	manifest, why := p.Run.ReadManifest()
	var written []runfolder.Written
	if why == nil {
		// Must not be nil even if the run didn't write any rows.
		written = append([]runfolder.Written{}, manifest.Dataset...)
	}
	r, err := dataset.Verify(p, written, os.TempDir())
	if err != nil {
		return nil, err
	}
	err = r.VerifyRun(p.Run, manifest, why)
	if err == nil && why == nil && manifest.Status == runfolder.Completed {
		err = r.VerifyLog(p, manifest)
	}
	return r, err
}

// verifyBatches checks a run's token batches, if it has any.
func verifyBatches(r *dataset.Report, run runfolder.Folder, tokens string) error {
	if run == "" || !dataset.HasBatches(run) {
		return nil
	}
	tok, err := runTokenizer(run, tokens)
	if err != nil {
		return err
	}
	defer tok.Close()
	return exit.Default(exit.Failed, r.VerifyBatches(run, tok))
}

// runTokenizer loads the tokenizer at path or, if path is empty, the one that the run's configuration names.
func runTokenizer(run runfolder.Folder, path string) (*tokenizer.Tokenizer, error) {
	if path == "" {
		var err error
		if path, err = dataset.TokenizerOf(run); err != nil {
			return nil, exit.With(exit.Usage, err)
		}
	}
	return loadTokenizer(path)
}

func newDatasetMergeCmd() *cobra.Command {
	var m finetune.Request
	var keep string
	cmd := withOutputDirs(&cobra.Command{
		Use:   "merge RUN...",
		Short: "Join finished runs into one, without repeats, contradictions or leaks across the split",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if m.OutputDir == "" && objects.Is(args[0]) {
				return exit.Usagef("%s is in object storage: specify the merged run's folder with --to", args[0])
			}
			if keep != "" {
				args = append(args, keep)
			}
			return withCopies(cmd, args, func(args []string) error {
				for _, arg := range args {
					f, err := runNamed(cmd, arg)
					if err != nil {
						return err
					}
					m.Join = append(m.Join, f)
				}
				if last := len(m.Join) - 1; keep != "" {
					m.Join, m.KeepSplit = m.Join[:last], m.Join[last]
				}
				return runRequest(cmd, 0, &m)
			})
		},
	})
	f := cmd.Flags()
	f.StringVar(&keep, "keep-split", "", "the `RUN` whose validation side is kept unchanged")
	f.StringVar(&m.RunID, "run-id", "", "name of the merged run and its folder; default: based on the time")
	f.StringVar(&m.OutputDir, "to", "", "folder for the merged run; default: next to the first run")
	return cmd
}

// runNamed returns the folder of the run that an argument names, either by path or by id.
func runNamed(cmd *cobra.Command, arg string) (runfolder.Folder, error) {
	if runfolder.Has(arg) {
		return runfolder.Folder(arg), nil
	}
	return runfolder.Find(arg, outputDirs(cmd)...)
}

// convertFlags are the flags of dataset convert.
type convertFlags struct {
	formats                       []string
	output, promptAs, jsonColumns string
	completion                    string
	history                       bool
	limits                        *dataset.Limits
}

func newDatasetConvertCmd() *cobra.Command {
	var flags convertFlags
	cmd := &cobra.Command{
		Use:     "convert PATH --format FORMAT",
		Short:   "Convert a data set to another format",
		Args:    cobra.ExactArgs(1),
		PreRunE: flags.checkOutput,
		RunE: func(cmd *cobra.Command, args []string) error {
			from, err := convertible(args[0], flags.output, *flags.limits)
			if err != nil {
				return err
			}
			opts, err := flags.rowOptions(cmd, from)
			if err != nil {
				return err
			}
			to, err := targets(from, flags.formats)
			if err != nil {
				return err
			}
			c, err := convert(cmd.Context(), from, to, opts, flags.output)
			if err != nil {
				return err
			}
			err = printResult(cmd, c, c.Text)
			if none := c.None(); err == nil && none != nil {
				return exit.With(exit.Failed, none)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&flags.formats, "format", nil, "format to write (repeatable): "+dataset.Names())
	f.StringVar(&flags.output, "output", "", "folder in which a folder for each format is created; default: the run's dataset folder")
	f.StringVar(&flags.promptAs, "prompt-as", "",
		"form of a text prompt in trl rows: user_message or text (default: as in the run)")
	f.StringVar(&flags.jsonColumns, "json-columns", "", "how Parquet rows hold tools and messages with tool calls: "+
		"json, for Hugging Face datasets from 4.7 on, or text (default: as in the run)")
	f.StringVar(&flags.completion, "completion", "", "completion of a demonstration in trl rows: turn (one turn) or "+
		"stretch (all turns up to the next context-only one) (default: as in the run)")
	f.BoolVar(&flags.history, "use-full-message-history", false,
		"in customizer rows, keep message prompts as messages instead of only the last message's text (default: as in the run)")
	flags.limits = rowLimits(cmd)
	_ = cmd.MarkFlagRequired("format")
	return cmd
}

// checkOutput returns an error if the rows would be written to object storage.
func (f *convertFlags) checkOutput(_ *cobra.Command, args []string) error {
	switch {
	case objects.Is(f.output):
		return exit.Usagef("--output %s: rows can only be written to a disk: specify a folder on one", f.output)
	case objects.Is(args[0]) && f.output == "":
		return exit.Usagef("%s is in object storage, which is never changed: specify a folder for the rows with --output",
			args[0])
	}
	return nil
}

// rowOptions returns the run's options, overridden by any flags given.
func (f *convertFlags) rowOptions(cmd *cobra.Command, from *dataset.Place) (rows.Options, error) {
	opts, err := from.RowOptions()
	if err != nil {
		return opts, exit.With(exit.Failed, err)
	}
	if cmd.Flags().Changed("use-full-message-history") {
		opts.FullHistory = f.history
	}
	if cmd.Flags().Changed("prompt-as") {
		if err := opts.TextPrompt.UnmarshalText([]byte(f.promptAs)); err != nil {
			return opts, exit.Usagef("--prompt-as: %w", err)
		}
	}
	if cmd.Flags().Changed("completion") {
		if opts.Stretch = f.completion == "stretch"; !opts.Stretch && f.completion != "turn" {
			return opts, exit.Usagef("--completion: expected turn or stretch, got %q", f.completion)
		}
	}
	if cmd.Flags().Changed("json-columns") {
		if err := opts.JSONColumns.UnmarshalText([]byte(f.jsonColumns)); err != nil {
			return opts, exit.Usagef("--json-columns: %w", err)
		}
	}
	return opts, nil
}

// targets finds the formats by name, and checks that they can be written from the data set.
func targets(from *dataset.Place, names []string) (to []dataset.Format, err error) {
	for _, name := range names {
		f, ok := dataset.Lookup(name)
		switch {
		case !ok:
			return nil, exit.Usagef("unknown format %q: the formats are %s", name, dataset.Names())
		case f.FromBatches() && from.Run == "":
			return nil, exit.Usagef("%s rows are built from a run's token batches: specify the run's folder", f.Name)
		case f.FromBatches() && !dataset.HasBatches(from.Run):
			return nil, exit.Failedf("no token batches in %s: set a tokenizer in the YAML (collator.tokenizer) "+
				"and run again", from.Run)
		}
		to = append(to, f)
	}
	return to, nil
}

func convert(
	ctx context.Context, from *dataset.Place, to []dataset.Format, o rows.Options, output string,
) (*dataset.Converted, error) {
	if from.Run != "" {
		c, err := dataset.Convert(ctx, from, to, o, output)
		return c, exit.Default(exit.Environment, err)
	}
	c, err := dataset.ConvertRows(ctx, from.Texts()[0], to, o, output)
	return c, exit.Default(exit.Failed, err) // the cause is most likely a row that can't be read
}

// convertible returns the run at path or, if path isn't a run, the rows there. Rows must be in a single format, and
// need an output folder.
func convertible(path, output string, limits dataset.Limits) (*dataset.Place, error) {
	if run, err := findRun(path); err == nil {
		return run, nil
	}
	p, err := findTexts(path, limits)
	if err != nil {
		return nil, err
	}
	p.Run = "" // a run whose record log is missing is converted as plain rows
	switch texts := p.Texts(); {
	case len(texts) > 1:
		return nil, exit.Usagef("%s holds rows in several formats: specify the folder of one, such as %s", path, texts[0].Dir)
	case output == "":
		return nil, exit.Usagef("cannot add rows to %s, which is not a run's folder: specify an output folder with --output", path)
	}
	return p, nil
}
