package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
)

func newDatasetStatsCmd() *cobra.Command {
	var source string
	var limits *dataset.Limits
	cmd := &cobra.Command{
		Use:   "stats PATH",
		Short: "Describe a data set: margins, lengths, pairs per turn, repeats, leakage, drops",
		Long: `Describe a data set: margins by score, lengths, how often the chosen answer is the longer one, pairs per turn, repeated and
contradictory records, overlap between the sides of the split, and what was dropped and why.

PATH is a run's folder, or rows as for dataset verify. Rows have no scores, so margins need a run's folder.

Trainers of text rows render them with the model's chat template. With --template, this counts what that template would
omit: reasoning, tool calls, and conversations that it refuses.`,
		Example: `  nat-go dataset stats RUN --template MODEL`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			render, err := renderer(source)
			if err != nil {
				return err
			}
			all, err := measure(args[0], render, *limits)
			if err != nil {
				return err
			}
			return printResult(cmd, map[string]any{"stats": all}, func(w io.Writer) error {
				for _, s := range all {
					if err := s.Text(w, explain.Code); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&source, "template", "", "chat template file or model folder; count what the template omits")
	limits = rowLimits(cmd)
	return cmd
}

// renderer compiles the template in a file or in a model's folder. It returns nil if path is empty.
func renderer(path string) (*turns.Renderer, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readTemplate(path)
	if err != nil {
		return nil, err
	}
	at, err := collator.ParseTemplateTime(collator.DefaultTemplateTime)
	if err != nil {
		return nil, err
	}
	s := turns.Settings{Now: at}
	if c, err := tokenizer.ReadConfig(path); err == nil { // only a model's folder specifies special tokens
		s.Vars = collator.TemplateVars(c, nil)
	}
	r, err := turns.New(text, s)
	if err != nil {
		err = exit.Usagef("template %s: %w", path, err)
	}
	return r, err
}

// measure returns the statistics of the records in the run at path, or of the rows there, for each format.
func measure(path string, render *turns.Renderer, limits dataset.Limits) ([]*dataset.Stats, error) {
	if p, err := findRun(path); err == nil {
		s, err := p.Measure(render, os.TempDir())
		return []*dataset.Stats{s}, exit.Default(exit.Failed, err)
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
		s, err := dataset.MeasureRows(f, render, os.TempDir())
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		all = append(all, s)
	}
	return all, nil
}
