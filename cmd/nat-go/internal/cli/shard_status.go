package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func newShardStatusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "List the shards that are not built yet, as an array expression",
		Long: `List the shards of a plan that are not built yet, as schedulers take them: 3,7-9. With --quiet nothing else
is printed, as in sbatch --array=$(nat-go shard status -q PLAN).`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := planArg(args)
			plan, err := dir.Read()
			if err != nil {
				return err
			}
			s, err := dir.Look(plan)
			if err != nil {
				return exit.With(exit.Failed, err)
			}
			out, missing := cmd.OutOrStdout(), shards.Array(s.Missing)
			switch {
			case asJSON:
				return json.NewEncoder(out).
					Encode(map[string]any{"shards": len(plan.Shards), "missing": missing, "state": s})
			case isQuiet(cmd):
				fmt.Fprintln(out, missing)
				return nil
			}
			fmt.Fprintf(
				out,
				"run %s: %d of %s built\n",
				plan.RunID,
				len(s.Done),
				ledger.Quantity(int64(len(plan.Shards)), "shard"),
			)
			if len(s.Running) > 0 {
				fmt.Fprintf(out, "  running  %s\n", shards.Array(s.Running))
			}
			if missing != "" {
				fmt.Fprintf(out, "  missing  %s\n", missing)
			} else {
				fmt.Fprintf(out, "  next     nat-go shard merge %s\n", dir)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
