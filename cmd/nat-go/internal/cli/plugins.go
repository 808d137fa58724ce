package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"strings"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/plugins"
	"github.com/nat-go/nat-go/plugins/host"
)

func newPluginsCmd() *cobra.Command {
	cmd := &cobra.Command{Use: "plugins", Short: "List and lock the plugins that builders come from"}
	cmd.AddCommand(newPluginsListCmd(), newPluginsLockCmd())
	return cmd
}

// pluginView is a plugin as it is printed.
type pluginView struct {
	plugins.Found
	Locked *plugins.Entry `json:"locked,omitempty"`
	State  string         `json:"state"` // "locked", "not locked", "changed", or what is wrong
}

func newPluginsListCmd() *cobra.Command {
	var flags pluginFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the plugins that are configured or installed, and whether they are what is locked; nothing is started",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			configured, lock, err := flags.load(cmd)
			if err != nil {
				return err
			}
			var views []pluginView
			for _, name := range pluginNames(configured) {
				views = append(views, viewPlugin(name, configured, lock))
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"plugins": views})
			}
			for _, v := range views {
				fmt.Fprintf(cmd.OutOrStdout(), "%-20s %-14s %-14s %s\n", v.Name, v.Via, v.State, v.Path)
			}
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// pluginNames are the plugins of a configuration, then those that are installed.
func pluginNames(configured []config.Plugin) (names []string) {
	seen := map[string]bool{}
	for _, p := range configured {
		seen[p.Name] = true
		names = append(names, p.Name)
	}
	for _, p := range plugins.Installed() {
		if !seen[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

func viewPlugin(name string, configured []config.Plugin, lock *plugins.Lock) pluginView {
	v := pluginView{Found: plugins.Found{Name: name}, Locked: lock.Plugins[name], State: "not locked"}
	path := ""
	for _, p := range configured {
		if p.Name == name {
			path = p.Path
		}
	}
	found, err := plugins.Find(name, path)
	if err != nil {
		v.State = err.Error()
		return v
	}
	v.Found = found
	spec, err := plugins.Spec(name, configured, lock)
	if err != nil {
		v.State = err.Error()
		return v
	}
	if v.Locked != nil {
		v.State = "locked"
		if sum, beside, err := sums(spec.Path); err != nil || sum != spec.SHA256 || !maps.Equal(beside, spec.Beside) {
			v.State = "changed"
		}
	}
	return v
}

// sums are the checksums of the program that a path leads to, and of the files beside it that belong to it.
func sums(path string) (sum string, beside map[string]string, err error) {
	full, err := exec.LookPath(path)
	if err != nil {
		return "", nil, err
	}
	if sum, err = host.FileSum(full); err != nil {
		return "", nil, err
	}
	beside, err = plugins.Beside(full)
	return sum, beside, err
}

func newPluginsLockCmd() *cobra.Command {
	var flags pluginFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lock [PLUGIN...]",
		Short: "Write version, checksum, protocol and settings of plugins to nat-go.lock, which later runs hold them to",
		Long: `Write version, checksum, protocol and settings of plugins to nat-go.lock, which later runs hold them to.

Without names all plugins of the configuration are locked. Each is started once to ask what it is. With a script go the files
beside it that have its ending: the *.py beside a main.py. The file lies beside the configuration; put it under version control.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			configured, lock, err := flags.load(cmd)
			if err != nil {
				return err
			}
			names := args
			if len(names) == 0 {
				for _, p := range configured {
					names = append(names, p.Name)
				}
			}
			if len(names) == 0 {
				return exit.Usagef("there is nothing to lock: give --config_file, or names of plugins")
			}
			for _, name := range names {
				if err := lockPlugin(cmd.Context(), name, configured, lock); err != nil {
					return err
				}
			}
			if err := lock.Write(); err != nil {
				return exit.With(exit.Environment, err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"file": lock.Path(), "plugins": lock.Plugins})
			}
			for _, name := range names {
				fmt.Fprintf(cmd.OutOrStdout(), "locked %s %s\n", name, lock.Plugins[name].Version)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is written\n", lock.Path())
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func lockPlugin(ctx context.Context, name string, configured []config.Plugin, lock *plugins.Lock) error {
	spec, err := plugins.Spec(name, configured, nil) // what is locked now does not count
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	sum, beside, err := sums(spec.Path)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	if spec.SHA256 == "" {
		spec.SHA256 = sum // what is asked is what is locked
	}
	spec.Beside = beside
	spec.Instances = 1
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer p.Close()
	lock.Add(name, p, sum, beside)
	return nil
}

// checkPluginBlocks checks the blocks of plugins' builders against their schemas: of the lock, or of the plugin, which is
// started for it.
func checkPluginBlocks(cmd *cobra.Command, c *config.Config) []finding.Finding {
	flags := pluginFlags{config: cmd.Flag("config_file").Value.String()}
	_, lock, err := flags.load(cmd)
	if err != nil {
		return []finding.Finding{{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()}}
	}
	var found []finding.Finding
	for i := range c.Builders {
		b := &c.Builders[i]
		if b.Spec != nil {
			continue
		}
		fs, err := checkPluginBlock(cmd.Context(), b, c.Plugins, lock)
		if err != nil {
			fs = []finding.Finding{b.Report(finding.Finding{Severity: finding.Error, Code: config.CodePlugin, Message: err.Error()})}
		}
		found = append(found, fs...)
	}
	return found
}

func checkPluginBlock(ctx context.Context, b *config.Block, configured []config.Plugin, lock *plugins.Lock) ([]finding.Finding, error) {
	plugin, builder, _ := strings.Cut(b.Type, "/")
	if text, ok := lock.SchemaOf(plugin, builder); ok {
		return checkSchema(b, text)
	}
	spec, err := plugins.Spec(plugin, configured, lock)
	if err != nil {
		return nil, err
	}
	spec.Instances = 1
	p, err := host.Start(ctx, spec, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	info, err := p.Builder(builder)
	if err != nil {
		return nil, err
	}
	found, err := checkSchema(b, info.ConfigSchema)
	if err != nil || finding.Failed(found) {
		return found, err
	}
	settings := []byte("{}")
	if len(info.ConfigSchema) > 0 {
		full, err := schema.FromJSONSchema(info.ConfigSchema)
		if err != nil {
			return nil, err
		}
		settings, _ = b.JSON(full)
	}
	own, err := p.Validate(ctx, builder, settings)
	if err != nil {
		return nil, err
	}
	return append(found, b.Adopt(plugins.Findings(own))...), nil
}

func checkSchema(b *config.Block, text []byte) ([]finding.Finding, error) {
	if len(text) == 0 {
		return nil, nil
	}
	spec, err := schema.FromJSONSchema(text)
	if err != nil {
		return nil, err
	}
	return b.Check(spec), nil
}
