package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/loss"
)

func newLossJSDCmd() *cobra.Command {
	var q loss.RowsRequest
	var input, output, reduction string
	cmd := &cobra.Command{
		Use:   "jsd --input F.safetensors [--output G.safetensors]",
		Short: "Compute the generalised Jensen-Shannon divergence of rows of logits, with its gradient",
		Long: `Compute the generalised Jensen-Shannon divergence of rows of logits, with its gradient, exactly, to check
another implementation of the loss.

With q = softmax(student/T), p = softmax(teacher/T) and M = (1-b) q + b p a row's loss is b KL(p||M) + (1-b) KL(q||M);
b = 0 is KL(p||q), b = 1 is KL(q||p). There is no factor T^2.

The input holds student_logits and teacher_logits [rows, V] (F32, BF16 or F16), and may hold weights [rows] and labels [rows];
rows whose label is -100 are ignored. The output holds row_loss float64 [rows], before weights, and grad float32 [rows, V]:
the gradient with respect to student_logits of sum(w*loss)/sum(w), or with --reduction sum of sum(w*loss). Totals are printed as JSON.`,
		Example: `  nat-go loss jsd --input logits.safetensors --output loss.safetensors --jsd-beta 0.5 --temperature 1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reduction != "mean" && reduction != "sum" {
				return exit.Usagef("--reduction: expected mean or sum, got %q", reduction)
			}
			if err := refuseOverwrite(output, input); err != nil {
				return err
			}
			q.Sum, q.Workers = reduction == "sum", runtime.GOMAXPROCS(0)
			res, err := rowsLoss(input, q)
			if err != nil {
				return err
			}
			if output != "" {
				if err := writeTensors(output, res.Tensors()); err != nil {
					return err
				}
			}
			for _, text := range res.Totals.Findings {
				fmt.Fprintln(cmd.ErrOrStderr(), "nat-go: "+text)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(res.Totals)
		},
	}
	f := cmd.Flags()
	f.StringVar(&input, "input", "", "safetensors file with the logits")
	f.StringVar(&output, "output", "", "safetensors file to write; unset: totals only")
	f.Float64Var(&q.Beta, "jsd-beta", 0.5, "b, from 0, KL(teacher||student), to 1, KL(student||teacher)")
	f.Float64Var(&q.Temperature, "temperature", 1, "temperature T, which divides the logits of both sides")
	f.StringVar(&q.Clip, "clip", "none", "part of the loss that --clip-value limits: none, token, element or element_bregman")
	f.Float64Var(&q.ClipValue, "clip-value", 0, "limit for --clip, in units of the loss before normalisation")
	f.StringVar(&q.Normalize, "normalize", "none", "none, or beta, which divides loss and gradient by b(1-b), making the ends continuous")
	f.IntVar(&q.TopK, "top-k", 0, "compare only the student's k most probable entries in each row; 0: all")
	f.StringVar(&q.Rest, "top-k-rest", "bucket",
		"entries outside --top-k: bucket makes them one entry; renormalise omits them and scales both sides to 1")
	f.IntVar(&q.Vocab, "vocab", 0, "leading columns that are vocabulary, if logits are padded or differ in width")
	f.StringVar(&reduction, "reduction", "mean", "loss that grad is the gradient of: mean, sum(w*loss)/sum(w), or sum, sum(w*loss)")
	_ = cmd.MarkFlagRequired("input")
	return cmd
}

// rowsLoss computes the loss for the rows in a file, with the settings in q.
func rowsLoss(input string, q loss.RowsRequest) (*loss.RowsResult, error) {
	f, err := openTensors(input)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read, err := loss.ReadRows(f)
	var res *loss.RowsResult
	if err == nil {
		q.Student, q.Teacher, q.Weights, q.Labels = read.Student, read.Teacher, read.Weights, read.Labels
		res, err = loss.Rows(q)
	}
	if err != nil {
		err = exit.Usagef("%s: %w", input, err)
	}
	return res, err
}
