package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/turns"
	rawjson "github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

func newChatProbeCmd() *cobra.Command {
	var source, now, kwargs string
	cmd := &cobra.Command{
		Use:   "probe --template T",
		Short: "Find out what a chat template does with messages",
		Long: `Find out what a chat template does with messages: which it accepts, trims, drops, hoists or rewrites, what ends a turn,
what it adds that no model wrote, and where a hint can be inserted without changing other text.`,
		Example: `  nat-go chat probe --template chat_template.jinja`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := readTemplate(source)
			if err != nil {
				return err
			}
			set := turns.Settings{}
			if set.Now, err = collator.ParseTemplateTime(now); err != nil {
				return exit.Usagef("--now: %v", err)
			}
			if set.Vars, err = probeVars(kwargs); err != nil {
				return exit.Usagef("--kwargs: %v", err)
			}
			rep, err := turns.Probe(text, set)
			if err != nil {
				return exit.Usagef("%s: %w", source, err)
			}
			return printResult(cmd, rep, rep.WriteText)
		},
	}
	cmd.Flags().StringVar(&source, "template", "", "chat template file or model folder")
	cmd.Flags().StringVar(&kwargs, "kwargs", "",
		`template variables as a JSON object; bos_token is "<s>" and eos_token "</s>" unless set`)
	cmd.Flags().StringVar(&now, "now", collator.DefaultTemplateTime,
		"time that strftime_now returns; the clock is never read")
	_ = cmd.MarkFlagRequired("template")
	return cmd
}

// probeVars returns the variables for a template without a tokenizer: common special tokens, and the user's variables,
// which override them.
func probeVars(kwargs string) (*pyvalue.Dict, error) {
	vars := &pyvalue.Dict{}
	for _, v := range [][2]string{{"bos", "<s>"}, {"eos", "</s>"}, {"unk", "<unk>"}, {"pad", "<pad>"}} {
		vars.SetStr(v[0]+"_token", pyvalue.Str(v[1]))
	}
	if kwargs == "" {
		return vars, nil
	}
	raw, err := rawjson.Parse([]byte(kwargs), rawjson.Limits{})
	if err != nil {
		return nil, err
	}
	v, err := pyvalue.Parse(raw)
	if err != nil {
		return nil, err
	}
	d := v.Dict()
	if d == nil {
		return nil, fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	for i := range d.Len() {
		k, v := d.At(i)
		vars.SetStr(k.Text(), v)
	}
	return vars, nil
}
