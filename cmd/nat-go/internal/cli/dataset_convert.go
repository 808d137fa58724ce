package cli

import (
	"encoding/json"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/rows"
)

func newDatasetConvertCmd() *cobra.Command {
	var formats []string
	var output, promptAs string
	var history, asJSON bool
	cmd := &cobra.Command{
		Use:   "convert RUN --format FORMAT",
		Short: "Write a run's data set in another format",
		Long: `Write a run's data set in another format, from its record log and the decisions made in the run: the same records, the same
split. What a format can't carry is left out and counted, with the reason.

sft_parquet takes the run's token batches instead: input_ids and labels, which TRL's SFTTrainer trains as they are.

The rows go to the run's own dataset folder and are entered in its manifest, or to a folder of your choice with --output.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := findRun(args[0])
			if err != nil {
				return err
			}
			if slices.Contains(formats, dataset.TokenParquet) {
				if len(formats) > 1 {
					return exit.Usagef("--format %s stands alone: it is made of the run's token batches, not of its records", dataset.TokenParquet)
				}
				return convertTokens(cmd.OutOrStdout(), run, output, asJSON)
			}
			opts, err := run.RowOptions()
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			if cmd.Flags().Changed("use_full_message_history") {
				opts.FullHistory = history
			}
			if cmd.Flags().Changed("prompt_as") {
				if err := opts.TextPrompt.UnmarshalText([]byte(promptAs)); err != nil {
					return exit.Usagef("--prompt_as: %w", err)
				}
			}
			var to []rows.Format
			for _, name := range formats {
				f, ok := rows.Lookup(name)
				if !ok {
					return exit.Usagef("there is no format %q: the formats are %s", name, rows.Names())
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
			if err == nil && c.Rows() == 0 {
				return exit.Failedf("none of the records fits")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&formats, "format", nil, "format to write (repeatable): "+rows.Names()+", "+dataset.TokenParquet)
	f.StringVar(&output, "output", "", "folder for the formats' folders; empty: the run's dataset folder")
	f.StringVar(&promptAs, "prompt_as", "", "what a text prompt becomes in trl rows: user_message or text (default: as in the run)")
	f.BoolVar(&history, "use_full_message_history", false, "keep message prompts as messages in customizer rows; else the last message's text (default: as in the run)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("format")
	return cmd
}

// convertTokens writes a run's sft batches as Parquet.
func convertTokens(w io.Writer, run *dataset.Place, output string, asJSON bool) error {
	if !dataset.HasBatches(run.Run) {
		return exit.Failedf("there are no token batches in %s: name a tokenizer in the YAML (collator.tokenizer) and run again", run.Run)
	}
	c, err := dataset.ConvertTokens(run, output)
	if err != nil {
		return exit.Default(exit.Environment, err)
	}
	if asJSON {
		err = json.NewEncoder(w).Encode(c)
	} else {
		err = c.Text(w)
	}
	if err == nil && c.Rows() == 0 {
		return exit.Failedf("the run has no sft batches")
	}
	return err
}
