package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator/loss"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/kernels"
)

// openTensors opens a safetensors file named by the user.
func openTensors(path string) (*tensors.File, error) {
	f, err := tensors.OpenFile(path)
	return f, exit.Default(exit.Usage, err)
}

// refuseOverwrite returns an error if output is one of the inputs, because writing it would destroy that input.
func refuseOverwrite(output string, inputs ...string) error {
	out, err := os.Stat(output)
	if err != nil {
		return nil
	}
	for _, input := range inputs {
		if in, err := os.Stat(input); err == nil && os.SameFile(in, out) {
			return exit.Usagef("--output %s is also an input, which would be overwritten: choose another file", output)
		}
	}
	return nil
}

// writeTensors writes a safetensors file.
func writeTensors(path string, all []tensors.Tensor) error {
	write := func(w io.Writer) error { return tensors.Write(w, all, nil) }
	return exit.Default(exit.Environment, durable.SaveOutput(path, write))
}

func newLossJSDCmd() *cobra.Command {
	var q loss.RowsRequest
	var input, output, reduction string
	cmd := &cobra.Command{
		Use:   "jsd --input F.safetensors [--output G.safetensors]",
		Short: "Compute the generalised Jensen-Shannon divergence of rows of logits, with its gradient",
		Args:  cobra.NoArgs,
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
	f.StringVar(&q.Normalize, "normalize", "none", "normalisation of loss and gradient: none, or beta (divide by b(1-b), for continuous ends)")
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
		Args:  cobra.NoArgs,
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
	f.StringVar(&o.normalize, "normalize", "none", "normalisation of the JSD: none, or beta (divide by b(1-b))")
	f.Float64Var(&o.DPO.Beta, "dpo-beta", 0.1, "beta of DPO")
	f.StringVar(&o.kind, "dpo-loss", "sigmoid", "DPO loss: sigmoid, ipo or hinge")
	f.Float64Var(&o.DPO.LabelSmoothing, "label-smoothing", 0, "label smoothing of the sigmoid loss")
	f.Float64Var(&o.clipEpsilon, "clip-epsilon", 0.2, "e of GRPO, which clips the ratio to [1-e, 1+e]; 0: no clipping")
	f.Float64Var(&o.GRPO.ClipHigh, "clip-epsilon-high", 0, "e of GRPO's upper limit; default: --clip-epsilon")
	f.Float64Var(&o.GRPO.KL, "kl", 0, "weight of GRPO's k3 penalty for diverging from ref_logprobs")
	f.StringVar(&o.reduction, "reduction", "token", "reduction of GRPO: token, sequence or constant (divide each row's sum by --max-tokens)")
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
	if o.JSD.Normalize = o.normalize == "beta"; !o.JSD.Normalize && o.normalize != "none" {
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

func newLossCheckCmd() *cobra.Command {
	var o compositeFlags
	var batch, logits string
	var tolerance float64
	cmd := &cobra.Command{
		Use:   "check --batch B.safetensors --logits L.safetensors",
		Short: "Compare a training script's own loss terms with exact ones, token by token",
		Args:  cobra.NoArgs,
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
