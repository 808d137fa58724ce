package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/plugins/conformance"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
)

// verifyFlags are the flags of builders verify.
type verifyFlags struct {
	plugin        pluginFlags
	only, configs []string
	from          string
}

func newBuildersVerifyCmd() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify PROGRAM|PLUGIN",
		Short: "Check that a program is a valid builder plugin",
		Long: "Check that a program is a valid builder plugin. The checks:\n\n  " + strings.Join(conformance.Names(), ", ") +
			"\n\nExit code 0 if all pass, 1 if one fails.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := flags.options(cmd, args[0])
			if err != nil {
				return err
			}
			report, err := verifyPlugin(cmd, opt)
			if err != nil {
				return err
			}
			err = printResult(cmd, report, report.Text)
			if err == nil && report.Failed > 0 {
				err = exit.With(exit.Failed, nil)
			}
			return err
		},
	}
	flags.plugin.add(cmd)
	cmd.Flags().StringArrayVar(&flags.only, "only", nil, "run only this check (repeatable)")
	cmd.Flags().StringArrayVar(&flags.configs, "settings", nil, "BUILDER=JSON: settings to check a builder with (repeatable)")
	cmd.Flags().StringVar(&flags.from, "from", "", "file with examples to build from, as for builders try")
	return cmd
}

// options returns the plugin, the checks and their inputs.
func (f *verifyFlags) options(cmd *cobra.Command, program string) (conformance.Options, error) {
	named, err := f.plugin.find(cmd, program)
	if err != nil {
		return conformance.Options{}, err
	}
	spec := named.Spec
	spec.Instances = 1
	opt := conformance.Options{Spec: spec, Only: f.only, Configs: map[string][]byte{}}
	for _, o := range f.only {
		if !slices.Contains(conformance.Names(), o) {
			return opt, exit.Usagef("--only: unknown check %s", o)
		}
	}
	for _, c := range f.configs {
		name, config, ok := strings.Cut(c, "=")
		if !ok {
			return opt, exit.Usagef("--settings %s: write BUILDER=JSON", c)
		}
		opt.Configs[name] = []byte(config)
	}
	if f.from != "" {
		groups, _, err := plugins.Groups(cmd.Context(), builtin.Sources(), f.from,
			host.BuilderInfo{Unit: builders.UnitExample}, 50)
		if err != nil {
			return opt, exit.With(exit.Usage, err)
		}
		opt.Groups = func(builders.Unit) []*ttc.Group { return groups }
	}
	return opt, nil
}

// verifyPlugin runs the checks. On a terminal it shows the name of the last one completed.
func verifyPlugin(cmd *cobra.Command, opt conformance.Options) (*conformance.Report, error) {
	var done func(conformance.Result)
	if !asJSON(cmd) && terminal.Is(cmd.ErrOrStderr()) {
		done = func(r conformance.Result) {
			fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine()+terminal.Line(r.Name))
		}
	}
	opt.Refused = plugins.Refused
	report, err := conformance.Run(cmd.Context(), opt, done)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if done != nil {
		fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine())
	}
	return report, nil
}
