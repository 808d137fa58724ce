package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

func newInspectCmd() *cobra.Command {
	var sourceType string
	var keys []string
	var asJSON bool
	var model finetune.Model
	cmd := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Say what a file is, what is in it and what would be made of it",
		Long: `Say what a file or folder is (JSON lines, JSON, Parquet, CSV, also compressed; - is standard input), how it is read,
what is in it, and what each builder would make of it. Nothing is written. Of a large input the beginning is read.

With the tokenizer of a model that traces name, what they claim for its calls is checked: the recorded counts of prompt
tokens, and the recorded ids. A call whose trace says otherwise is partial.`,
		Example: `  nat-go inspect answers.parquet
  zcat runs.jsonl.gz | nat-go inspect -
  nat-go inspect answers.csv --map output=reply
  nat-go inspect traces.jsonl --tokenizer ./my-model --policy my-model`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			r, err := finetune.Inspect(cmd.Context(), paths, sourceType, keys, nil, model)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return r.Screen(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	inputFlags(f, &sourceType, &keys)
	f.StringVar(&model.Name, "policy", "", "a model whose calls are checked, as the traces name it")
	f.StringVar(&model.Tokenizer, "tokenizer", "", "folder with the model's tokenizer")
	f.StringVar(&model.Template, "template", "", "the model's chat template, if not the tokenizer's own")
	cmd.MarkFlagsRequiredTogether("policy", "tokenizer")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
