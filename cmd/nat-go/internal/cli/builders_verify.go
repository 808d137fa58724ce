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

func newBuildersVerifyCmd() *cobra.Command {
	var flags pluginFlags
	var only, configs []string
	var from string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify PROGRAM|PLUGIN",
		Short: "Check that a program is a good builder plugin",
		Long: "Check that a program is a good builder plugin. The checks:\n\n  " + strings.Join(conformance.Names(), ", ") +
			"\n\nExit code 0 if all pass, 1 if one fails.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := flags.find(cmd, args[0])
			if err != nil {
				return err
			}
			spec := named.Spec
			spec.Instances = 1
			opt := conformance.Options{Spec: spec, Only: only, Configs: map[string][]byte{}}
			for _, o := range only {
				if !slices.Contains(conformance.Names(), o) {
					return exit.Usagef("--only %s: there is no such check", o)
				}
			}
			for _, c := range configs {
				name, config, ok := strings.Cut(c, "=")
				if !ok {
					return exit.Usagef("--settings %s: write BUILDER=JSON", c)
				}
				opt.Configs[name] = []byte(config)
			}
			if from != "" {
				groups, _, err := plugins.Groups(cmd.Context(), builtin.Sources(), from,
					host.BuilderInfo{Unit: builders.UnitExample}, 50)
				if err != nil {
					return exit.With(exit.Usage, err)
				}
				opt.Groups = func(builders.Unit) []*ttc.Group { return groups }
			}
			var done func(conformance.Result)
			if !asJSON && terminal.Is(cmd.ErrOrStderr()) {
				done = func(r conformance.Result) {
					fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine()+terminal.Line(r.Name))
				}
			}
			report, err := conformance.Run(cmd.Context(), opt, done)
			if err != nil {
				return exit.With(exit.Environment, err)
			}
			if done != nil {
				fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine())
			}
			if asJSON {
				err = report.JSON(cmd.OutOrStdout())
			} else {
				err = report.Text(cmd.OutOrStdout())
			}
			if err == nil && report.Failed > 0 {
				err = exit.With(exit.Failed, nil)
			}
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().StringArrayVar(&only, "only", nil, "run this check alone (repeatable)")
	cmd.Flags().StringArrayVar(&configs, "settings", nil, "BUILDER=JSON: settings to check a builder with (repeatable)")
	cmd.Flags().StringVar(&from, "from", "", "file of examples to build from, as for builders try")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
