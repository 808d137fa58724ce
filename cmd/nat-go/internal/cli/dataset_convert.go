package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

func newDatasetConvertCmd() *cobra.Command {
	var formats []string
	var output, promptAs, jsonColumns string
	var history, asJSON bool
	cmd := &cobra.Command{
		Use:   "convert RUN --format FORMAT",
		Short: "Write a run's data set in another format",
		Long: `Write a run's data set in another format, from its record log and the decisions made in the run: the same records, the same
split. What a format can't carry is left out and counted, with the reason.

FORMAT.parquet is FORMAT as Parquet, which says of every column what it holds: no reader guesses it from the first rows.
sft_parquet and skyrl_pretokenized are made of the run's token batches instead: input_ids and labels, which TRL's SFTTrainer
trains as they are, and input_ids and loss_mask, which SkyRL's SFT trainer does.

The rows go to the run's own dataset folder and are entered in its manifest, or to a folder of your choice with --output.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := findRun(args[0])
			if err != nil {
				return err
			}
			opts, err := run.RowOptions()
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			if cmd.Flags().Changed("use-full-message-history") {
				opts.FullHistory = history
			}
			if cmd.Flags().Changed("prompt-as") {
				if err := opts.TextPrompt.UnmarshalText([]byte(promptAs)); err != nil {
					return exit.Usagef("--prompt-as: %w", err)
				}
			}
			if cmd.Flags().Changed("json-columns") {
				if err := opts.JSONColumns.UnmarshalText([]byte(jsonColumns)); err != nil {
					return exit.Usagef("--json-columns: %w", err)
				}
			}
			var to []dataset.Format
			for _, name := range formats {
				f, ok := dataset.Lookup(name)
				switch {
				case !ok:
					return exit.Usagef("there is no format %q: the formats are %s", name, dataset.Names())
				case f.FromBatches() && !dataset.HasBatches(run.Run):
					return exit.Failedf("there are no token batches in %s: name a tokenizer in the YAML (collator.tokenizer) and run again", run.Run)
				}
				to = append(to, f)
			}
			c, err := dataset.Convert(cmd.Context(), run, to, opts, output)
			if err != nil {
				return exit.Default(exit.Environment, err)
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(c)
			} else {
				err = c.Text(cmd.OutOrStdout())
			}
			if none := c.None(); err == nil && none != nil {
				return exit.With(exit.Failed, none)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&formats, "format", nil, "format to write (repeatable): "+dataset.Names())
	f.StringVar(&output, "output", "", "folder for the formats' folders; empty: the run's dataset folder")
	f.StringVar(&promptAs, "prompt-as", "",
		"what a text prompt becomes in trl rows: user_message or text (default: as in the run)")
	f.StringVar(&jsonColumns, "json-columns", "", "how Parquet rows hold tools and messages with tool calls: "+
		"json, for Hugging Face datasets from 4.7 on, or text (default: as in the run)")
	f.BoolVar(&history, "use-full-message-history", false,
		"keep message prompts as messages in customizer rows; else the last message's text (default: as in the run)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("format")
	return cmd
}
