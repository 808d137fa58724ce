package inspect

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
)

// TestFormats checks that data that a format can't hold is reported before the run, with the name of a format that can
// hold it.
func TestFormats(t *testing.T) {
	for _, c := range []struct{ builder, dataset, want string }{
		{"{_type: dpo_traj_builder}", "{formats: [trl, trl.parquet]}", ""},
		{
			"{_type: dpo_traj_builder}", "{formats: [trl, verl]}",
			"the format verl holds demonstrations and rollouts and states, but the builders make preferences: " +
				"it will not have any rows; remove the format, or write customizer, trl, kto",
		},
		{
			"{_type: grpo_traj_builder}", "{formats: [openai]}",
			"make rollouts: it will not have any rows; remove the format, or write kto, verl, atropos",
		},
		{"{_type: sft_traj_builder}", "{formats: [trl, messages, customizer]}", ""},
		{"{_type: sft_traj_builder, train: last}", "{formats: [trl]}", ""},
		{
			"{_type: sft_traj_builder, train: last}", "{formats: [messages]}",
			"x trains only on the last; write trl, or set dataset.turns: last",
		},
		{"{_type: sft_traj_builder, train: last}", "{formats: [messages.parquet], turns: last}", ""},
		{
			"{_type: sft_traj_builder, train: last}", "{formats: [customizer], turns: last}",
			"x trains only on the last; write trl",
		},
		{
			"{_type: sft_traj_builder, train: calls}", "{formats: [trl]}",
			"trainers of trl rows can't train only on calls",
		},
		{"{_type: other/plugin}", "{formats: [kto]}", ""},
		{"{_type: other/plugin}", "{}", "rows are written as trl by default; the kinds of record that other/plugin"},
		{"{_type: grpo_traj_builder}", "{}", ""},
		{"{_type: states_traj_builder}", "{}", ""},
		{"{_type: sdpo_traj_builder}", "{}", ""},
		{"{_type: sdpo_traj_builder}", "{formats: [trl]}", "the builders make distillations: it will not have any rows; remove the format, or write privileged"},
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
				if f.Severity != finding.Warning && !strings.Contains(c.builder, "plugin") || f.Line == 0 {
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

// TestDefaultFormats checks that without formats the records of every builder have one that carries them, with a
// configuration and without one.
func TestDefaultFormats(t *testing.T) {
	for _, c := range []struct{ builder, adapter, want string }{
		{"{_type: dpo_traj_builder}", "", "trl"},
		{"{_type: sft_traj_builder}", "", "trl"},
		{"{_type: grpo_traj_builder}", "", "verl"},
		{"{_type: states_traj_builder}", "", "nemo_gym"},
		{"{_type: sdpo_traj_builder}", "", "privileged"},
		{"{_type: sdpo_traj_builder, emit: [repair_pairs, demonstrations]}", "", "trl"},
		{"{_type: other/plugin}", "", "trl"},
		{"{_type: grpo_traj_builder}", ", trainer_adapter: a", "customizer"},
	} {
		text := "trajectory_builders: {x: " + c.builder + "}\ntrainer_adapters: {a: {_type: nemo_customizer_trainer_adapter}}\n" +
			"finetuning: {trajectory_builder: x" + c.adapter + "}\n"
		loaded, _ := config.Parse("c.yml", []byte(text), config.Options{Types: builtin.Types()})
		if got := strings.Join(DefaultFormats(loaded), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", text, got, c.want)
		}
		unfit := Unfit(loaded, "x", []builders.Kind{builders.KindRollout})
		if fits := c.want == "verl"; fits != (len(unfit) == 0) || !fits && (unfit[0].Line == 0 ||
			!strings.Contains(unfit[0].Message+unfit[0].Fix, "x makes rollouts, but "+c.want+", written by default, "+
				"can't hold any of themwrite kto, verl, atropos")) {
			t.Errorf("%s: %+v", text, unfit)
		}
	}
	for builder, want := range map[string]string{statesBuilder: "nemo_gym", grpoBuilder: "verl", sdpoBuilder: "privileged"} {
		if got := new(Report).Format(builder); got != want {
			t.Errorf("%s: got %s, want %s", builder, got, want)
		}
	}
}
