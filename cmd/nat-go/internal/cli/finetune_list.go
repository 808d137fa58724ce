package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
)

// newFinetuneListCmd lists runs and their jobs as last heard of.
func newFinetuneListCmd() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "list [FOLDER...]",
		Short: "List runs and how their jobs stood when last heard of",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, folders []string) error {
			if len(folders) == 0 {
				folders = f.outputDirs
			}
			list, err := jobs.List(folders...)
			if err != nil {
				return err
			}
			if f.asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"runs": list})
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tADAPTER\tPHASE\tSTATUS\tJOB\tLAST HEARD")
			for _, e := range list {
				fmt.Fprintln(w, listLine(e))
			}
			return w.Flush()
		},
	}
	f.add(cmd)
	return cmd
}

func listLine(e jobs.Entry) string {
	switch {
	case e.Error != "":
		return fmt.Sprintf("%s\t-\t-\tunreadable: %s\t-\t-", e.RunID, e.Error)
	case e.Job == nil:
		return fmt.Sprintf("%s\t-\t-\t%s\t-\t-", e.RunID, e.Status)
	}
	id := "-"
	if e.Job.Ref != nil {
		id = e.Job.Ref.ID
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", e.RunID, e.Job.Adapter, e.Job.Phase, e.Job.State(), id, e.Job.UpdatedAt.Format(time.RFC3339))
}
