package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
)

func newValidateCmd() *cobra.Command {
	var file, format, compat string
	var overrides []string
	var noPlugins, noFiles bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration and report all problems",
		Long: `Check a configuration and report all problems, with file, line and column, and how to fix them.

Inputs, tokenizer and programs that it names must exist, unless --no-files is given. The beginning of the inputs is
read as in a run, to report entries that can't be read or would be omitted, and builders that build nothing
from them. Nothing is run or written. Plugins that are not in nat-go.lock are started to query their settings, unless
--no-plugins is given.
The exit code is 2 if there is an error, 0 if there are only warnings and notes.`,
		Example: `  nat-go validate finetune.yml
  nat-go validate finetune.yml --report sarif > findings.sarif`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := oneConfig(args, file)
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				format = "json"
			}
			if !slices.Contains(findingFormats, format) {
				return exit.Usagef("--report %s: use one of %s", format, strings.Join(findingFormats, ", "))
			}
			opt, err := loadOptions(compat, overrides)
			if err != nil {
				return err
			}
			c, fs := config.Load(file, opt)
			if c != nil && !noPlugins && !finding.Failed(fs) {
				fs = finding.Sort(append(fs, checkPluginBlocks(cmd, file, c)...))
			}
			if c != nil && !noFiles && !finding.Failed(fs) {
				fs = finding.Sort(append(fs, inspect.Check(cmd.Context(), c)...))
			}
			if err := printFindings(cmd.OutOrStdout(), format, fs, colored(cmd.OutOrStdout())); err != nil {
				return err
			}
			if format == "text" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", file, finding.Count(fs))
			}
			if finding.Failed(fs) {
				return exit.With(exit.Usage, nil)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "config-file", "", "configuration to check; same as passing it as an argument")
	f.StringVar(&format, "report", "text", "how to print findings: "+strings.Join(findingFormats, ", "))
	f.StringVar(&compat, "compat", "", "nat: unknown keys of components are warnings, unset variables empty, as in NAT")
	f.BoolVar(&noPlugins, "no-plugins", false, "don't run plugins: the blocks of unlocked plugins are not checked")
	f.BoolVar(&noFiles, "no-files", false, "don't check inputs, tokenizer or programs")
	f.StringArrayVarP(&overrides, "override", "o", nil, "override a setting: PATH=VALUE or PATH VALUE (repeatable)")
	return cmd
}

// isData reports whether a file's extension is used only for inputs. A .json file may be a configuration.
func isData(file string) bool {
	name := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(file), ".gz"), ".zst")
	return slices.Contains([]string{".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"}, filepath.Ext(name))
}

// oneConfig returns the path of the configuration, given as an argument or with --config-file.
func oneConfig(args []string, flag string) (string, error) {
	switch {
	case len(args) > 0 && flag != "" && args[0] != flag:
		return "", exit.Usagef("cannot check both %s and %s: name only one of them", args[0], flag)
	case len(args) > 0 && isData(args[0]):
		return "", exit.Usagef("%s is data, not a configuration: `nat-go inspect %[1]s` says what is in it, and "+
			"`nat-go init %[1]s --write finetune.yml` writes a configuration for it", args[0])
	case len(args) > 0:
		return args[0], nil
	case flag == "":
		return "", exit.Usagef("missing configuration: use `nat-go validate FILE`")
	}
	return flag, nil
}

var findingFormats = []string{"text", "json", "github", "sarif"}

// loadOptions returns the options of config.Load for the values of --compat and --override.
func loadOptions(compat string, overrides []string) (config.Options, error) {
	if compat != "" && compat != "nat" {
		return config.Options{}, exit.Usagef("--compat %s: nat is the only supported value", compat)
	}
	opt := config.Options{Types: builtin.Types(), Compat: compat == "nat"}
	for _, o := range overrides {
		opt.Overrides = append(opt.Overrides, config.Override(o))
	}
	return opt, nil
}

func printFindings(w io.Writer, format string, fs []finding.Finding, color bool) error {
	switch format {
	case "json":
		return finding.JSON(w, fs)
	case "github":
		return finding.GitHub(w, fs)
	case "sarif":
		return finding.SARIF(w, fs, finetune.Version(), func(code string) string {
			page, _ := explain.Code(code)
			return page.Text
		})
	}
	return finding.Text(w, fs, color)
}
