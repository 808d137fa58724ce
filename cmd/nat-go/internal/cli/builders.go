package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
)

// withPlugins adds the flags of commands whose argument can be a configured plugin or the path of a plugin program.
func withPlugins(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().String("config-file", "", "configuration whose plugins are used, in addition to the installed ones")
	cmd.Flags().StringArray("arg", nil, "argument to pass to a plugin program that is given as a path (repeatable)")
	return cmd
}

// selectedPlugins reads the catalog of the plugins that the flags select.
func selectedPlugins(cmd *cobra.Command) (*inspect.Catalog, error) {
	file, _ := cmd.Flags().GetString("config-file")
	return pluginsOf(cmd, file)
}

// pluginsOf reads the catalog of a configuration's plugins and prints any problems with the configuration.
func pluginsOf(cmd *cobra.Command, configFile string) (*inspect.Catalog, error) {
	c, found, err := inspect.Open(configFile, config.Options{Types: builtin.Types()})
	if len(found) > 0 {
		findingsPrinter(cmd)(found)
	}
	return c, err
}

// findPlugin finds a plugin by the path of its program or by its name in the catalog.
func findPlugin(cmd *cobra.Command, name string) (*inspect.Named, error) {
	if n, err := inspect.Program(name, repeatable(cmd, "arg")); n != nil || err != nil {
		return n, err
	}
	c, err := selectedPlugins(cmd)
	if err != nil {
		return nil, err
	}
	return c.Plugin(name)
}

// startPlugin starts the plugin that the user named.
func startPlugin(cmd *cobra.Command, name string) (*host.Plugin, *inspect.Named, error) {
	if b, ok := builtin.Builder(inspect.TypeOf(name)); ok { // accept short names such as dpo, as --builder does
		name = b.Info().Name
	}
	n, err := findPlugin(cmd, name)
	if err != nil {
		return nil, nil, err
	}
	p, err := n.Start(cmd.Context(), newLogger(cmd))
	return p, n, err
}

func newBuildersListCmd() *cobra.Command {
	return withPlugins(&cobra.Command{
		Use:   "list",
		Short: "List the built-in builders and the builders in configured or installed plugins",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := selectedPlugins(cmd)
			if err != nil {
				return err
			}
			list := c.Builders(cmd.Context())
			return printResult(cmd, list, func(w io.Writer) error { return list.Text(w, cmd.ErrOrStderr()) })
		},
	})
}

func newBuildersDescribeCmd() *cobra.Command {
	return withPlugins(&cobra.Command{
		Use:   "describe BUILDER|PLUGIN|PROGRAM",
		Short: "Describe a builder and its settings",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, named, err := startPlugin(cmd, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			d, err := named.Describe(p)
			if err != nil {
				return err
			}
			return printResult(cmd, d, d.Text)
		},
	})
}

func newBuildersNewCmd() *cobra.Command {
	var lang, dir, replace string
	cmd := &cobra.Command{
		Use:   "new NAME --lang go|python",
		Short: "Create a builder plugin that works and passes its checks, as a starting point for your own",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := finetune.Version()
			if !strings.HasPrefix(v, "v") {
				v = "v0.0.0"
			}
			if !slices.Contains(plugins.Langs, lang) {
				return exit.Usagef("--lang %s: use one of %s", lang, strings.Join(plugins.Langs, ", "))
			}
			if replace != "" {
				var err error
				if replace, err = filepath.Abs(replace); err != nil {
					return exit.With(exit.Usage, err)
				}
			}
			out, err := plugins.New(dir, args[0], lang, replace, v)
			if err != nil {
				return exit.With(exit.Usage, err)
			}
			text := "wrote " + out + "; " + filepath.Join(out, "README.md") +
				" describes how to build, check and use it\n"
			if lang == "go" && replace == "" && v == "v0.0.0" {
				text += "this nat-go was built from a checkout: run `go get github.com/nat-go/nat-go@latest` there, " +
					"or pass --replace CHECKOUT\n"
			}
			return printText(cmd, map[string]string{"dir": out}, func(int) string { return text })
		},
	}
	cmd.Flags().StringVar(&lang, "lang", "go", "language: "+strings.Join(plugins.Langs, ", "))
	cmd.Flags().StringVar(&dir, "dir", ".", "folder to create the plugin's folder in")
	cmd.Flags().StringVar(&replace, "replace", "", "nat-go checkout to build against instead of a published version")
	return cmd
}

func newBuildersTryCmd() *cobra.Command {
	var try inspect.Try
	var settings string
	cmd := withPlugins(&cobra.Command{
		Use:   "try BUILDER|PLUGIN|PROGRAM --from FILE",
		Short: "Run a builder on a few examples and print what it builds from them, as JSON lines",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, named, err := startPlugin(cmd, args[0])
			if err != nil {
				return err
			}
			defer p.Close()
			try.Builder = named.Among(p, try.Builder)
			try.Settings = []byte(settings)
			return try.Run(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	})
	cmd.Flags().StringVar(&try.Builder, "builder", "", "the plugin's builder to run")
	cmd.Flags().StringVar(&settings, "settings", "{}", "its settings, as JSON")
	cmd.Flags().StringVar(&try.From, "from", "", "file with examples (required)")
	cmd.Flags().IntVar(&try.Most, "limit", 10, "maximum number of examples to use; 0: all")
	_ = cmd.MarkFlagRequired("from")
	return cmd
}

// verifyFlags are the flags of builders verify.
type verifyFlags struct {
	only, configs []string
	from          string
}

func newBuildersVerifyCmd() *cobra.Command {
	var flags verifyFlags
	cmd := withPlugins(&cobra.Command{
		Use:   "verify PROGRAM|PLUGIN",
		Short: "Check that a program is a valid builder plugin",
		Long: "Check that a program is a valid builder plugin. The checks:\n\n  " + strings.Join(host.Checks(), ", ") +
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
			return printReport(cmd, report, report.Text, report.Failed == 0)
		},
	})
	cmd.Flags().StringArrayVar(&flags.only, "only", nil, "run only this check (repeatable)")
	cmd.Flags().StringArrayVar(&flags.configs, "settings", nil, "BUILDER=JSON: settings to check a builder with (repeatable)")
	cmd.Flags().StringVar(&flags.from, "from", "", "file with examples, as for builders try")
	return cmd
}

// options returns the options for verifying the plugin that program names.
func (f *verifyFlags) options(cmd *cobra.Command, program string) (host.VerifyOptions, error) {
	named, err := findPlugin(cmd, program)
	if err != nil {
		return host.VerifyOptions{}, err
	}
	opt := host.VerifyOptions{Spec: named.Spec, Only: f.only, Configs: map[string][]byte{}}
	opt.Spec.Instances = 1
	for _, o := range f.only {
		if !slices.Contains(host.Checks(), o) {
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

// verifyPlugin runs the checks. On a terminal, it shows the name of the last completed check.
func verifyPlugin(cmd *cobra.Command, opt host.VerifyOptions) (*host.VerifyReport, error) {
	var done func(host.CheckResult)
	if !asJSON(cmd) && terminal.Is(cmd.ErrOrStderr()) {
		done = func(r host.CheckResult) {
			fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine()+terminal.Line(r.Name))
		}
	}
	opt.Refused = plugins.Refused
	report, err := host.Verify(cmd.Context(), opt, done)
	if err != nil {
		return nil, exit.With(exit.Environment, err)
	}
	if done != nil {
		fmt.Fprint(cmd.ErrOrStderr(), terminal.ClearLine())
	}
	return report, nil
}

func newPluginsListCmd() *cobra.Command {
	return withPlugins(&cobra.Command{
		Use:   "list",
		Short: "List the configured and installed plugins, and show which are locked, without starting any",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := selectedPlugins(cmd)
			if err != nil {
				return err
			}
			views := c.Plugins(cmd.Context())
			t := &columns.Table{}
			for _, v := range views {
				program := v.Path
				if v.Python != "" {
					program += " " + strings.Join(host.ModuleArgs(v.Python), " ")
				}
				t.Add(terminal.Line(v.Name), v.Via, terminal.Line(v.State), terminal.Line(program))
			}
			if len(views) == 0 {
				t.Add("no plugins: none are configured, and no nat-go-builder-NAME is on PATH")
			}
			return printText(cmd, map[string]any{"plugins": views}, t.Text)
		},
	})
}

func newPluginsLockCmd() *cobra.Command {
	return withPlugins(&cobra.Command{
		Use:   "lock [PLUGIN...]",
		Short: "Write the version, checksum, protocol and settings of plugins to nat-go.lock; later runs reject others",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := selectedPlugins(cmd)
			if err != nil {
				return err
			}
			names := args
			if len(names) == 0 {
				names = lists.Map(c.Configured, func(p config.Plugin) string { return p.Name })
			}
			if len(names) == 0 {
				return exit.Usagef("nothing to lock: pass --config-file or plugin names")
			}
			for _, name := range names {
				if err := c.LockPlugin(cmd.Context(), name); err != nil {
					return err
				}
			}
			if err := c.Lock.Write(); err != nil {
				return exit.With(exit.Environment, err)
			}
			if asJSON(cmd) {
				return json.NewEncoder(cmd.OutOrStdout()).
					Encode(map[string]any{"file": c.Lock.Path(), "plugins": c.Lock.Plugins})
			}
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "locked %s %s\n", name, c.Lock.Plugins[name].Version)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is written\n", c.Lock.Path())
			return nil
		},
	})
}

// checkPluginBlocks checks the blocks that configure plugins' builders against the builders' schemas. A schema comes
// from the lock file or from the plugin, which is started for this purpose.
func checkPluginBlocks(cmd *cobra.Command, file string, c *config.Config) []finding.Finding {
	plugins, err := pluginsOf(cmd, file)
	if err != nil {
		return []finding.Finding{{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()}}
	}
	return plugins.CheckBlocks(cmd.Context(), c)
}
