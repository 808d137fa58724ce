package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

func newInspectCmd() *cobra.Command {
	var in finetune.Inspection
	cmd := &cobra.Command{
		Use:   "inspect [PATH ...]",
		Short: "Describe a file: its format, its content, and the records that builders would build from it",
		Long: `Describe a file or folder: its format (JSON lines, JSON, Parquet, CSV, also compressed; - is standard input), how it is read,
what it contains, and what each builder would build from it. Nothing is written. A folder may hold files of several formats:
each is reported separately, and files that can't be read are listed with the reason. Stored sessions are read to their
end; of other large inputs, only the beginning is read. --quick reads a sample of each file and reports how large it is.

Without a path, agent logs in their usual locations are listed, but not read.

With --policy and --tokenizer, the traces' claims about this model's calls are checked: the recorded prompt token
counts and the recorded ids. A call whose trace disagrees with the tokenizer counts as partial.`,
		Example: `  nat-go inspect answers.parquet
  zcat runs.jsonl.gz | nat-go inspect -
  nat-go inspect answers.csv --map output=reply
  nat-go inspect ~/.claude/projects --quick
  nat-go inspect traces.jsonl --where 'reward > 0.5 and "refund" in called'
  nat-go inspect traces.jsonl --tokenizer ./my-model --policy my-model`,
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return listLogs(cmd)
			}
			in.From = paths
			found, err := finetune.Inspect(cmd.Context(), in)
			if err != nil {
				return err
			}
			var shown any = found
			if len(found.Reports) == 1 {
				shown = found.Reports[0]
			}
			return printResult(cmd, shown, func(w io.Writer) error {
				for _, r := range found.Reports {
					if err := r.Screen(w); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	inputFlags(f, &in.Source, &in.Map)
	f.StringVar(&in.Model.Name, "policy", "", "the model whose calls are checked, as named in the traces")
	f.StringVar(&in.Model.Tokenizer, "tokenizer", "", "folder with the model's tokenizer")
	f.StringVar(&in.Model.Template, "template", "", "the model's chat template, if not the tokenizer's own")
	cmd.MarkFlagsRequiredTogether("policy", "tokenizer")
	f.StringVar(&in.Where, "where", "",
		"examine only examples that meet this `EXPRESSION`, as in dataset.where; clauses about tasks or records are ignored")
	f.BoolVar(&in.Quick, "quick", false, "read only a sample of each file")
	return cmd
}

// listLogs lists agent logs found in their usual locations.
func listLogs(cmd *cobra.Command) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	logs := inspect.FindLogs(home, os.Getenv)
	return printResult(cmd, map[string]any{"logs": logs}, func(w io.Writer) error { return inspect.ScreenLogs(w, logs) })
}
