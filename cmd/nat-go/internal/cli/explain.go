package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
)

func newExplainCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a drop reason or finding code, and say what to do about it",
		Long: `Explain a drop reason (tie) or a finding code (NG1203), and say what to do about it. Without a code,
list all codes; with the name of an area (source, build, gate, curate, write, config, dataset, ...), list that area's codes.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := explain.Find(strings.Join(args, "")) // at most one
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			if all {
				_, err := io.WriteString(cmd.OutOrStdout(), explain.Page(pages))
				return err
			}
			return printText(cmd, map[string]any{"codes": pages}, func(width int) string { return explain.Text(pages, width) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "print the codes in full, as one Markdown page: ttc/ledger/README.md")
	return cmd
}
