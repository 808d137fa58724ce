package cli

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/bench"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/kernelbench"
)

func newBenchCmd() *cobra.Command {
	o := bench.Options{Shape: bench.Standard}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the main job, or the kernels, on this machine",
		Long: `Measure a run from a NAT evaluation's output to a data set: time, throughput and peak memory of all processes,
on generated input. If NAT is installed (` + bench.PythonVariable + ` can name its Python), it is measured in the same rounds.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.JSON = asJSON(cmd)
			err := requirePositive(cmd, "examples", "turns", "candidates", "rounds")
			if err != nil {
				return err
			}
			if o.Program, err = os.Executable(); err != nil {
				return exit.Environmentf("cannot find this program's own file: %w", err)
			}
			return exit.Default(exit.Environment, bench.Run(cmd.Context(), cmd.OutOrStdout(), o))
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Shape.Examples, "examples", o.Shape.Examples, "number of examples in the input")
	f.IntVar(&o.Shape.Turns, "turns", o.Shape.Turns, "turns per example")
	f.IntVar(&o.Shape.Candidates, "candidates", o.Shape.Candidates, "candidates per turn")
	f.IntVar(&o.Rounds, "rounds", 5, "number of rounds after a warm-up round")
	f.Float64Var(&o.Stream, "stream", 0, "also run this many GB through a pipe, to check that memory use doesn't grow with the input")
	f.StringVar(&o.Dir, "dir", "", "folder to work in; default: an in-memory file system where available")
	cmd.AddCommand(newBenchKernelsCmd())
	return cmd
}

func newBenchKernelsCmd() *cobra.Command {
	var o kernelbench.Options
	cmd := &cobra.Command{
		Use:   "kernels",
		Short: "Measure the JSD kernels against this machine's limits",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.JSON = asJSON(cmd)
			if err := requirePositive(cmd, "vocabs", "threads", "mib", "rounds"); err != nil {
				return err
			}
			return kernelbench.Run(cmd.Context(), cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&o.Vocab, "vocabs", []int{32000, 151936}, "vocabulary sizes")
	f.IntSliceVar(&o.Threads, "threads", []int{1, 2}, "thread counts")
	f.IntVar(&o.MiB, "mib", 256, "size of each side's logits, in MiB")
	f.IntVar(&o.Rounds, "rounds", 7, "number of rounds, of which the median is reported")
	f.StringVar(&o.Torch, "torch", "", "Python with torch: also measure torch.compile, keeping freed memory")
	f.DurationVar(&o.Budget, "budget", time.Minute, "start no new round after this much measuring time; compilation isn't counted")
	return cmd
}

// requirePositive rejects flags with a value below 1.
func requirePositive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		text := cmd.Flag(name).Value.String() // a list is formatted as [1,2]
		for n := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("[,]", r) }) {
			if strings.HasPrefix(n, "-") || n == "0" {
				return exit.Usagef("--%s %s: must be at least 1", name, n)
			}
		}
	}
	return nil
}
