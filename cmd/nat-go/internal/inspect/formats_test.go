package inspect

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
)

// TestFormats checks that what a format can't carry is reported before the run, together with a format that can.
func TestFormats(t *testing.T) {
	for _, c := range []struct{ builder, dataset, want string }{
		{"{_type: dpo_traj_builder}", "{formats: [trl, trl.parquet]}", ""},
		{
			"{_type: dpo_traj_builder}", "{formats: [trl, verl]}",
			"the format verl holds demonstrations and rollouts and states, and the builders make preferences: " +
				"it will have no row; leave it out, or write customizer, trl, kto",
		},
		{
			"{_type: grpo_traj_builder}", "{formats: [openai]}",
			"make rollouts: it will have no row; leave it out, or write kto, verl, atropos",
		},
		{"{_type: sft_traj_builder}", "{formats: [trl, messages, customizer]}", ""},
		{"{_type: sft_traj_builder, train: last}", "{formats: [trl]}", ""},
		{
			"{_type: sft_traj_builder, train: last}", "{formats: [messages]}",
			"x trains the last; write trl, or set dataset.turns: last",
		},
		{"{_type: sft_traj_builder, train: last}", "{formats: [messages.parquet], turns: last}", ""},
		{
			"{_type: sft_traj_builder, train: last}", "{formats: [customizer], turns: last}",
			"x trains the last; write trl",
		},
		{
			"{_type: sft_traj_builder, train: calls}", "{formats: [trl]}",
			"no trainer of trl rows trains the calls alone",
		},
		{"{_type: other/plugin}", "{formats: [kto]}", ""},
	} {
		t.Run(c.builder, func(t *testing.T) {
			text := "trajectory_builders: {x: " + c.builder + "}\ndataset: " + c.dataset +
				"\nfinetuning: {trajectory_builder: x}\n"
			loaded, _ := config.Parse("c.yml", []byte(text), config.Options{Types: builtin.Types()})
			if loaded == nil {
				t.Fatal(text)
			}
			k := &check{config: loaded}
			k.formats()
			var got []string
			for _, f := range k.found {
				if f.Severity != finding.Warning || f.Line == 0 {
					t.Errorf("%s: %+v", text, f)
				}
				got = append(got, f.Message+"; "+f.Fix)
			}
			if all := strings.Join(got, "|"); !strings.Contains(all, c.want) || c.want == "" && all != "" {
				t.Errorf("%s: got %s, want %s", text, all, c.want)
			}
		})
	}
}

// TestStatesHaveTheirFormat checks that states alone go into a format that carries them, without a tokenizer.
func TestStatesHaveTheirFormat(t *testing.T) {
	if got := new(Report).Format("states_traj_builder"); got != "nemo_gym" {
		t.Errorf("got %s, want nemo_gym", got)
	}
}
