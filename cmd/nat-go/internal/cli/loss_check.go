package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/loss"
	"github.com/nat-go/nat-go/internal/tensors"
)

func newLossCheckCmd() *cobra.Command {
	var o compositeFlags
	var batch, logits string
	var tolerance float64
	cmd := &cobra.Command{
		Use:   "check --batch B.safetensors --logits L.safetensors",
		Short: "Compare a training script's own loss terms with exact ones, token by token",
		Long: `Compare a training script's own loss terms with exact ones, token by token, as natgo.loss.check in the
Python package does. The file of logits holds the tensors that loss composite reads (sft: logits [R,T,V]), and some of
the script's terms:

  sft, rl  yours.token_losses [R,T]: the term of the token at t, before weights; 0 where nothing is trained
  dpo      yours.chosen_logps, yours.rejected_logps [R,T]: log p of each trained token; yours.pair_losses [R]
  sdpo     yours.pair_losses [P]: the divergence at each pair
  all      yours.loss: the reduced loss

[R,T-1] is also accepted, with the term of token t at t-1. The report is printed as JSON: how many terms differ, the
first of them by row and token, and mistakes that would explain all differences in a term. The limit is 64 rows.`,
		Example: `  nat-go loss check --batch batches/dpo/train/00000.safetensors --logits dumped.safetensors`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := o.parse(cmd)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			report, err := withDump(batch, logits, func(b, l *tensors.File) (*loss.Report, error) {
				return loss.Check(b, l, options, tolerance)
			})
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
		},
	}
	f := cmd.Flags()
	f.StringVar(&batch, "batch", "", "batch file")
	f.StringVar(&logits, "logits", "", "safetensors file with the logits for the batch and the script's terms")
	f.Float64Var(&tolerance, "tolerance", 1e-3, "maximum difference between two terms: relative, and absolute below 1")
	o.register(cmd, 1)
	_ = cmd.MarkFlagRequired("batch")
	_ = cmd.MarkFlagRequired("logits")
	return cmd
}
