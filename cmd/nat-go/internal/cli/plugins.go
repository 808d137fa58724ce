package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/plugins/host"
)

func newPluginsListCmd() *cobra.Command {
	var flags pluginFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the configured and installed plugins, and show which are locked, without starting any",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := flags.load(cmd)
			if err != nil {
				return err
			}
			views := c.Plugins(cmd.Context())
			t := &columns.Table{}
			for _, v := range views {
				t.Add(terminal.Line(v.Name), v.Via, terminal.Line(v.State), terminal.Line(programOf(v)))
			}
			if len(views) == 0 {
				t.Add("no plugins: none are configured, and no nat-go-builder-NAME is on PATH")
			}
			return printText(cmd, map[string]any{"plugins": views}, t.Text)
		},
	}
	flags.add(cmd)
	return cmd
}

// programOf returns the program that serves a plugin's builders, including the arguments needed to run a Python module.
func programOf(v inspect.Plugin) string {
	if v.Python != "" {
		return v.Path + " " + strings.Join(host.ModuleArgs(v.Python), " ")
	}
	return v.Path
}

func newPluginsLockCmd() *cobra.Command {
	var flags pluginFlags
	cmd := &cobra.Command{
		Use:   "lock [PLUGIN...]",
		Short: "Write the version, checksum, protocol and settings of plugins to nat-go.lock; later runs refuse any others",
		Long: `Write the version, checksum, protocol and settings of plugins to nat-go.lock. Later runs refuse any others.

Without names, all plugins in the configuration are locked. Each is started once to query it. For a script,
the files next to it with the same extension are locked too, such as the *.py files next to a main.py; for a Python module, all
files in its package. The lock file is next to the configuration; put it under version control.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.load(cmd)
			if err != nil {
				return err
			}
			names := args
			if len(names) == 0 {
				for _, p := range c.Configured {
					names = append(names, p.Name)
				}
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
	}
	flags.add(cmd)
	return cmd
}

// checkPluginBlocks checks the blocks that configure plugins' builders against the builders' schemas. A schema comes
// from the lock, or from the plugin, which is started to get it.
func checkPluginBlocks(cmd *cobra.Command, file string, c *config.Config) []finding.Finding {
	flags := pluginFlags{config: file}
	plugins, err := flags.load(cmd)
	if err != nil {
		return []finding.Finding{{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()}}
	}
	return plugins.CheckBlocks(cmd.Context(), c)
}
