package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/objects"
)

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
		Use:   "convert PATH --format FORMAT",
		Short: "Convert a data set to another format",
		Long: `Convert a data set to another format with the same records and split. Anything a format can't hold is omitted and counted, with
the reason. PATH is a run's folder, whose record log and decisions are read, or rows as for dataset verify, with --output.
Rows hold less than the run's records: they lack scores and origins, and kto, verl and atropos rows don't identify their record.

FORMAT.parquet is FORMAT as Parquet, which declares the type of every column: readers don't have to guess it from the first rows.
sft_parquet and skyrl_pretokenized are built from the run's token batches instead: input_ids and labels, which TRL's SFTTrainer
trains on unchanged, and input_ids and loss_mask, which SkyRL's SFT trainer does.

The rows go to the run's own dataset folder and are recorded in its manifest, or to a folder of your choice with --output.`,
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
	f.StringVar(&flags.completion, "completion", "", "completion of a demonstration in trl rows: turn, which is one turn, or "+
		"stretch, which is all turns up to the next context-only one (default: as in the run)")
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
	return c, exit.Default(exit.Failed, err) // most likely because a row can't be read
}

// convertible returns the run at path, or the rows there. Rows must be in a single format, and need an output folder.
func convertible(path, output string, limits dataset.Limits) (*dataset.Place, error) {
	if run, err := findRun(path); err == nil {
		return run, nil
	}
	p, err := findTexts(path, limits)
	if err != nil {
		return nil, err
	}
	p.Run = "" // a run without its record log is converted as plain rows
	switch texts := p.Texts(); {
	case len(texts) > 1:
		return nil, exit.Usagef("%s holds rows in several formats: specify the folder of one, such as %s", path, texts[0].Dir)
	case output == "":
		return nil, exit.Usagef("cannot add rows to %s, which is not a run's folder: specify an output folder with --output", path)
	}
	return p, nil
}
