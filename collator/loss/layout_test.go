package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/tensors"
)

func renamed(x tensors.Tensor, name string) tensors.Tensor {
	x.Name = name
	return x
}

// step is one rollout with a hint of two tokens before its target, 7 8, and a pair, in both layouts.
type step struct{ padded, composer [][2][]tensors.Tensor }

func newStep(equal bool) step {
	r := rand.New(rand.NewPCG(1, 2))
	grid := func(name string, ids ...int64) tensors.Tensor { return tensors.Of(name, ids, 1, len(ids)) }
	row := func(name string, x float32) tensors.Tensor { return tensors.Of(name, []float32{x}, 1) }
	logits := func(name string, n int) tensors.Tensor {
		x := make([]float32, n*vocab)
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		return tensors.Of(name, x, 1, n, vocab)
	}
	own, at := []int64{5, 6, 7, 8, 9}, []int64{1, 2} // of the logits that predict 7 and 8
	seen, mask := []int64{1, 1, 1, 1, 1}, []int64{0, 0, 1, 1, 0}
	if equal { // the student is padded where its teacher has the hint
		own, seen, mask = []int64{5, 6, 0, 0, 7, 8, 9}, []int64{1, 1, 0, 0, 1, 1, 1}, []int64{0, 0, 0, 0, 1, 1, 0}
		at = []int64{1, 4}
	}
	policy, teacher := logits("logits", len(own)), logits("teacher_logits", 7)
	chosen, rejected := logits("chosen_logits", 3), logits("rejected_logits", 3)
	rl := []tensors.Tensor{
		grid("input_ids", own...), grid("attention_mask", seen...), grid("response_mask", mask...),
		row("advantage", 0.7), row("row_weight", 1),
	}
	hinted := grid("teacher_input_ids", 5, 6, 3, 4, 7, 8, 9)
	hintedMask := grid("teacher_attention_mask", 1, 1, 1, 1, 1, 1, 1)
	index := func(name string, x ...int64) tensors.Tensor { return tensors.Of("pair_"+name, x, len(x)) }
	sdpo := []tensors.Tensor{
		grid("student_input_ids", own...), grid("student_attention_mask", seen...), hinted, hintedMask,
		index("student_row", 0, 0), index("student_pos", at...), index("teacher_row", 0, 0),
		index("teacher_pos", 3, 4), index("target_id", 7, 8), tensors.Of("pair_weight", []float32{0.5, 0.5}, 2),
	}
	refs := []tensors.Tensor{row("ref_chosen_logps", -2), row("ref_rejected_logps", -1), row("row_weight", 1)}
	dpo := append([]tensors.Tensor{
		grid("chosen_input_ids", 1, 2, 3), grid("chosen_labels", -100, 2, 3), grid("rejected_input_ids", 1, 4, 4),
		grid("rejected_labels", -100, 4, -100),
	}, refs...)
	joint := []tensors.Tensor{
		rl[0], rl[1], rl[2], renamed(rl[3], "advantages"), row("rewards", 1), rl[4], row("sdpo_row_weight", 0.5),
		renamed(hinted, "ctx_teacher_input_ids"), renamed(hintedMask, "ctx_teacher_attention_mask"),
		grid("sdpo_loss_mask", -100, -100, -100, 1, 1, -100, -100),
		renamed(dpo[0], "dpo_chosen_input_ids"), grid("dpo_chosen_response_mask", 0, 1, 1),
		renamed(dpo[2], "dpo_rejected_input_ids"), grid("dpo_rejected_response_mask", 0, 1, 0),
		renamed(refs[0], "dpo_chosen_ref_logprobs"), renamed(refs[1], "dpo_rejected_ref_logprobs"),
		renamed(refs[2], "dpo_row_weight"),
	}
	return step{
		[][2][]tensors.Tensor{
			{rl, {policy}}, {sdpo, {renamed(policy, "student_logits"), teacher}}, {dpo, {chosen, rejected}},
		},
		[][2][]tensors.Tensor{{joint, {policy, teacher, chosen, rejected}}},
	}
}

// TestComposerLayout checks that a step in the composer layout, all channels in one file, has the loss and the
// gradients of the same step in the padded layout, whether or not the student is as wide as its teacher.
func TestComposerLayout(t *testing.T) {
	for name, equal := range map[string]bool{"own width": false, "equal width": true} {
		t.Run(name, func(t *testing.T) {
			s, o := newStep(equal), options()
			o.GRPO.KL = 0
			evaluate := func(files [][2][]tensors.Tensor) (Metrics, map[string][]float32) {
				var dumps []*Dump
				for _, f := range files {
					d, err := ReadDump(opened(t, f[0]...), opened(t, f[1]...))
					if err != nil {
						t.Fatal(err)
					}
					dumps = append(dumps, d)
				}
				m, grads, err := Evaluate(dumps, o, true)
				if err != nil {
					t.Fatal(err)
				}
				all := map[string][]float32{}
				for i, d := range dumps {
					for _, x := range d.Tensors(grads[i], "") {
						all[x.Name], _ = tensors.Items[float32](x)
					}
				}
				return m, all
			}
			want, grads := evaluate(s.padded)
			got, joint := evaluate(s.composer)
			if want != got || want.SDPO == 0 || want.DPO == 0 || want.Positions != 2 {
				t.Errorf("padded %+v\ncomposer %+v", want, got)
			}
			sum := slices.Clone(grads["logits_grad"])
			for i, x := range grads["student_logits_grad"] {
				sum[i] += x
			}
			for name, want := range map[string][]float32{
				"logits_grad": sum, "chosen_logits_grad": grads["chosen_logits_grad"],
			} {
				if len(want) == 0 || len(want) != len(joint[name]) {
					t.Fatalf("%s: %d and %d", name, len(want), len(joint[name]))
				}
				for i := range want {
					if math.Abs(float64(want[i]-joint[name][i])) > 1e-6 {
						t.Fatalf("%s[%d] is %g, want %g", name, i, joint[name][i], want[i])
					}
				}
			}
			for name, files := range map[string][2]*tensors.File{
				"no channel has logits": {opened(t, s.composer[0][0]...), opened(t, s.padded[1][1][0])},
				"missing tensor chosen_logits": {
					opened(t, s.composer[0][0][10:]...), opened(t, s.padded[1][1][0]),
				},
			} {
				if _, err := ReadDump(files[0], files[1]); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := Check(opened(t, s.composer[0][0]...), opened(t, s.composer[0][1]...), o, 1); err == nil ||
				!strings.Contains(err.Error(), "collator.format: composer") {
				t.Error(err)
			}
		})
	}
}

// TestComposerMasksOfNoBatch: masks that no collator writes are an error.
func TestComposerMasksOfNoBatch(t *testing.T) {
	for name, mask := range map[string][]int64{
		"other numbers":          {9, 9, 9, 9, 9, 9, 9},
		"negative":               {1, 1, -9, 0, 1, 1, 1},
		"a gap in a shorter row": {1, 0, 1, 1},
	} {
		s := newStep(true)
		n := len(mask)
		joint := slices.Clone(s.composer[0][0])
		for i, x := range joint[:3] {
			v, _ := tensors.Items[int64](x)
			joint[i] = tensors.Of(x.Name, v[:n], 1, n)
		}
		joint[1] = tensors.Of("attention_mask", mask, 1, n)
		x, _ := tensors.Items[float32](s.composer[0][1][0])
		logits := slices.Clone(s.composer[0][1])
		logits[0] = tensors.Of("logits", x[:n*vocab], 1, n, vocab)
		if _, err := ReadDump(opened(t, joint...), opened(t, logits...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestWithoutOldLogprobs checks that a policy without recorded log-probs is compared with itself: every ratio is 1, and
// the gradient depends only on the advantages.
func TestWithoutOldLogprobs(t *testing.T) {
	b, o := example(), options()
	b.DPO, b.SDPO, b.GRPO.OldLogprobs, o.GRPO.KL = nil, nil, nil, 0
	grads := &Gradients{GRPO: make([]float32, 3*5*vocab)}
	m, err := composite(b, o, Step{}, grads)
	if err != nil || m.Ratio != 1 || !slices.ContainsFunc(grads.GRPO, func(x float32) bool { return x != 0 }) {
		t.Errorf("%v %+v", err, m)
	}
}
