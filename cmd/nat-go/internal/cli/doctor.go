package cli

import (
	"io"
	"os/signal"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/doctor"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
)

func newDoctorCmd() *cobra.Command {
	f := doctor.Request{Load: loadTokenizer}
	var row string
	cmd := &cobra.Command{
		Use:   "doctor TRAINER [RUN | FILE ...]",
		Short: "Compare the tokens that a trainer trains on with those that nat-go would train on",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), leaveSignals...)
			defer stop()
			f.Trainer, f.Paths = args[0], args[1:]
			if n, err := strconv.Atoi(row); err == nil && n > 0 {
				f.Row = n
			} else if row != "" {
				return exit.Usagef("--row %s: pass a row number, from 1", row)
			}
			report, err := doctor.Examine(ctx, f)
			if err != nil {
				return err
			}
			text := func(w io.Writer) error { return report.Text(w, colored(w)) }
			return printReport(cmd, report, text, report.Sound())
		},
	}
	s := cmd.Flags()
	s.StringVar(&f.Tokenizer, "tokenizer", "", "Hugging Face folder of the model to be trained; default: the run's collator.tokenizer")
	s.StringVar(&f.Template, "template", "", "chat template file, or the name of one of the tokenizer's; default: the run's, or the tokenizer's own")
	s.StringVar(&f.Serving, "serving", "", "folder the model is served from, to compare its template, vocabulary and stop tokens")
	s.StringVar(&f.Python, "python", "",
		"Python with the trainer installed; default: "+doctor.PythonVariable+", or python3")
	s.StringArrayVar(&f.Settings, "set", nil, "setting of the trainer's config (SFTConfig, DPOConfig) as NAME=VALUE, the value as JSON or text (repeatable)")
	s.IntVar(&f.Rows, "limit", doctor.MaxRows, "number of rows to compare in each file; at most 100")
	s.StringVar(&row, "row", "", "show this row token by token: its number, from 1")
	s.DurationVar(&f.Timeout, "timeout", 5*time.Minute, "time limit for the trainer, per file")
	return cmd
}
