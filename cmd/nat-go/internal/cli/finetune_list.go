package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/trainers/jobs"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
)

func newFinetuneListCmd() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:   "list [FOLDER...]",
		Short: "List runs with the last known state of their jobs",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, folders []string) error {
			if len(folders) == 0 {
				folders = dirs
			}
			list, err := jobs.List(folders...)
			if err != nil {
				return err
			}
			t := &columns.Table{}
			t.Add("RUN", "STATUS", "ADAPTER", "PHASE", "LAST HEARD", "JOB")
			for _, e := range list {
				t.Add(listLine(e)...)
			}
			return printText(cmd, map[string]any{"runs": list}, t.Text)
		},
	}
	addOutputDirs(cmd, &dirs)
	return cmd
}

func listLine(e jobs.Entry) []string {
	run := terminal.Line(e.RunID)
	switch {
	case e.Error != "":
		return []string{run, "unreadable", "-", "-", "-", terminal.Line(e.Error)}
	case e.Job == nil:
		return []string{run, e.Status, "-", "-", "-", "-"}
	}
	id := "-"
	if e.Job.Ref != nil {
		id = e.Job.Ref.ID
	}
	at := e.Job.UpdatedAt.UTC().Format("2006-01-02 15:04Z")
	return []string{
		run, string(e.Job.State()), terminal.Line(strings.TrimSuffix(e.Job.Adapter, "_trainer_adapter")),
		string(e.Job.Phase), at, terminal.Line(id),
	}
}
