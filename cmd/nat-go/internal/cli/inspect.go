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
	cmd := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Say what a file is, what is in it and what would be made of it",
		Long: `Say what a file or folder is (JSON lines, JSON, Parquet, CSV, also compressed; - is standard input), how it is read,
what is in it, and what each builder would make of it. Nothing is written. Of a large input the beginning is read.`,
		Example: `  nat-go inspect answers.parquet
  zcat runs.jsonl.gz | nat-go inspect -
  nat-go inspect answers.csv --map output=reply`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, paths []string) error {
			r, err := finetune.Inspect(cmd.Context(), paths, sourceType, keys, nil)
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
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
