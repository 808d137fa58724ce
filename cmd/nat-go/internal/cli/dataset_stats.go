package cli

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
)

func newDatasetStatsCmd() *cobra.Command {
	var asJSON bool
	var limits *dataset.Limits
	cmd := &cobra.Command{
		Use:   "stats PATH",
		Short: "Describe a data set: margins, lengths, pairs a turn, repeats, leakage, drops",
		Long: `Describe a data set: margins by score, lengths, how often the chosen answer is the longer one, pairs a turn, repeated and
contradictory records, what stands on both sides of the split, and what was dropped and why.

PATH is a run's folder, or rows as for dataset verify. Rows have no scores, so margins need a run's folder.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := measure(args[0], *limits)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"stats": all})
			}
			for _, s := range all {
				if err := s.Text(cmd.OutOrStdout(), explain.Code); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	limits = rowLimits(cmd)
	return cmd
}

// measure describes a run's records, or the rows of every format found.
func measure(path string, limits dataset.Limits) ([]*dataset.Stats, error) {
	if p, err := findRun(path); err == nil {
		s, err := p.Measure(os.TempDir())
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		return []*dataset.Stats{s}, nil
	}
	p, err := findDataset(path, limits)
	if err != nil {
		return nil, err
	}
	if len(p.Texts()) == 0 {
		return nil, noTexts(p, path)
	}
	var all []*dataset.Stats
	for _, f := range p.Texts() {
		s, err := dataset.MeasureRows(f, os.TempDir())
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		all = append(all, s)
	}
	return all, nil
}
