package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/loss"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// compositeFlags are the flags for the composite loss. Flags with a few possible values are strings until parse reads
// them.
type compositeFlags struct {
	loss.Options
	reduction, kind, clip, normalize string
	clipEpsilon                      float64
}

func newLossCompositeCmd() *cobra.Command {
	var o compositeFlags
	var batches, logits []string
	var output string
	cmd := &cobra.Command{
		Use:   "composite --batch B.safetensors --logits L.safetensors [--batch ... --logits ...]",
		Short: "Compute grpo + alpha_sdpo * jsd + beta_replay * dpo from batches and the logits a trainer dumped for them",
		Long: `Compute grpo + alpha_sdpo * jsd + beta_replay * dpo from batches and the logits a trainer dumped for them, with
gradients, to check the trainer's own loss. The n-th --logits belongs to the n-th --batch; together they are one optimiser
step, whose denominators cover all of them. Tensors of the logits (F32, BF16 or F16; logits at position t-1 predict token t):

  rl    logits [R,T,V]; ref_logprobs [R,T] with --kl
  dpo   chosen_logits, rejected_logits [R,T,V]; ref_chosen_logps, ref_rejected_logps [R] if the batch has none
  sdpo  student_logits, teacher_logits: [P,V] at the pair positions, or [R,T,V]; without teacher_logits the batch's
        pair_teacher_topk_ columns are the teacher, at temperature 1 unless pair_teacher_temperature [1] gives another;
        --temperature must be the same

Batches of collator.format composer are read, too. For a file with all channels of a step, the tensors are logits (of
input_ids), teacher_logits, chosen_logits and rejected_logits. Without old_logprobs, the policy is compared with itself,
as trainers do.

The output holds the gradient of the loss with respect to each, named after it: chosen_logits_grad. If there is more
than one batch, the names begin with the batch's number: 2.student_logits_grad. Metrics are printed as JSON.`,
		Example: `  nat-go loss composite --batch batches/dpo/train/00000.safetensors --logits dumped.safetensors --dpo-beta 0.1`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(batches) != len(logits) {
				return exit.Usagef("%d --batch and %d --logits: each batch needs its own logits", len(batches),
					len(logits))
			}
			if err := refuseOverwrite(output, slices.Concat(batches, logits)...); err != nil {
				return err
			}
			options, err := o.parse(cmd)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			return composite(cmd, batches, logits, output, options)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&batches, "batch", nil, "batch file; repeatable")
	f.StringArrayVar(&logits, "logits", nil, "safetensors file with the logits for the batch; repeatable")
	f.StringVar(&output, "output", "", "safetensors file to write gradients to")
	o.register(cmd, 0)
	_ = cmd.MarkFlagRequired("batch")
	_ = cmd.MarkFlagRequired("logits")
	return cmd
}

// composite prints the metrics of one step, and writes its gradients to output unless that is empty.
func composite(cmd *cobra.Command, batches, logits []string, output string, o loss.Options) error {
	var dumps []*loss.Dump
	unscored := 0
	for i := range batches {
		d, err := withDump(batches[i], logits[i], loss.ReadDump)
		if err != nil {
			return err
		}
		dumps = append(dumps, d)
		unscored += d.Unscored
	}
	m, grads, err := loss.Evaluate(dumps, o, output != "")
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	if output != "" {
		if err := writeTensors(output, gradTensors(dumps, grads)); err != nil {
			return err
		}
	}
	if !m.Finite() {
		return exit.Failedf("loss is %v: %d rows of logits have no softmax (a NaN, a +Inf, or only -Inf); if there "+
			"are none, jsd_beta is 0 or 1, and one side rules out tokens that the other allows", m.Loss, m.NonFinite)
	}
	if unscored > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "nat-go: %d pairs have no teacher log-probs and get zero weight\n", unscored)
	}
	if text := m.Slow(); text != "" {
		fmt.Fprintln(cmd.ErrOrStderr(), "nat-go: "+text)
	}
	if m.Positions > 0 && o.AlphaSDPO == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "nat-go: loss/sdpo_kl has weight 0 in the total and the gradients: see --alpha-sdpo")
	}
	if m.Pairs > 0 && o.BetaReplay == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "nat-go: loss/trace_replay_dpo has weight 0 in the total and the gradients: see --beta-replay")
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(m)
}

// register adds the flags. weight is the default of --alpha-sdpo and --beta-replay.
func (o *compositeFlags) register(cmd *cobra.Command, weight float64) {
	f := cmd.Flags()
	f.Float64Var(&o.AlphaSDPO, "alpha-sdpo", weight, "weight of the JSD")
	f.Float64Var(&o.BetaReplay, "beta-replay", weight, "weight of DPO")
	f.Float64Var(&o.JSD.Beta, "jsd-beta", 0.5, "b of the JSD, from 0, KL(teacher||student), to 1, KL(student||teacher)")
	f.Float64Var(&o.JSD.Temperature, "temperature", 1, "temperature of the JSD, which divides the logits of both sides")
	f.StringVar(&o.clip, "clip", "none", "part of the JSD that --clip-value limits: none, token, element or element_bregman")
	f.Float64Var(&o.JSD.ClipValue, "clip-value", 0, "limit of the JSD")
	f.StringVar(&o.normalize, "normalize", "none", "none, or beta, which divides the JSD by b(1-b)")
	f.Float64Var(&o.DPO.Beta, "dpo-beta", 0.1, "beta of DPO")
	f.StringVar(&o.kind, "dpo-loss", "sigmoid", "DPO loss: sigmoid, ipo or hinge")
	f.Float64Var(&o.DPO.LabelSmoothing, "label-smoothing", 0, "label smoothing of the sigmoid loss")
	f.Float64Var(&o.clipEpsilon, "clip-epsilon", 0.2, "e of GRPO, which clips the ratio to [1-e, 1+e]; 0: no clipping")
	f.Float64Var(&o.GRPO.ClipHigh, "clip-epsilon-high", 0, "e of GRPO's upper limit; default: --clip-epsilon")
	f.Float64Var(&o.GRPO.KL, "kl", 0, "weight of GRPO's k3 penalty for diverging from ref_logprobs")
	f.StringVar(&o.reduction, "reduction", "token", "for GRPO: token, sequence, or constant, which divides each row's sum by --max-tokens")
	f.IntVar(&o.MaxTokens, "max-tokens", 0, "length by which GRPO's constant reduction divides")
	f.Float64Var(&o.RolloutTemperature, "rollout-temperature", 1,
		"temperature at which GRPO's old_logprobs were computed")
}

func (o *compositeFlags) parse(cmd *cobra.Command) (loss.Options, error) {
	var err error
	if o.JSD.Clip, err = kernels.ParseClip(o.clip); err != nil {
		return o.Options, err
	}
	if o.DPO.Kind, err = kernels.ParsePreference(o.kind); err != nil {
		return o.Options, err
	}
	if o.GRPO.Reduction, err = kernels.ParsePolicyReduction(o.reduction); err != nil {
		return o.Options, err
	}
	switch o.normalize {
	case "none", "beta":
		o.JSD.Normalize = o.normalize == "beta"
	default:
		return o.Options, fmt.Errorf("--normalize: expected none or beta, got %q", o.normalize)
	}
	o.GRPO.ClipLow = o.clipEpsilon
	if !cmd.Flags().Changed("clip-epsilon-high") {
		o.GRPO.ClipHigh = o.clipEpsilon
	}
	o.Workers = runtime.GOMAXPROCS(0)
	return o.Options, nil
}

// withDump opens a batch and the logits for it, and calls read with them.
func withDump[T any](batch, logits string, read func(b, l *tensors.File) (T, error)) (out T, err error) {
	b, err := openTensors(batch)
	if err != nil {
		return out, err
	}
	defer b.Close()
	l, err := openTensors(logits)
	if err != nil {
		return out, err
	}
	defer l.Close()
	if out, err = read(b, l); err != nil {
		err = exit.Usagef("%s with %s: %w", batch, logits, err)
	}
	return out, err
}

func gradTensors(dumps []*loss.Dump, grads []*loss.Gradients) (out []tensors.Tensor) {
	for i, d := range dumps {
		prefix := ""
		if len(dumps) > 1 {
			prefix = fmt.Sprintf("%d.", i+1)
		}
		out = append(out, d.Tensors(grads[i], prefix)...)
	}
	return out
}
