package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/collate"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

func newInspectCmd() *cobra.Command {
	in, keys := inspect.Options{Tokenizers: true}, []string(nil)
	model := schema.New[config.Collator]()
	cmd := &cobra.Command{
		Use:   "inspect [PATH ...]",
		Short: "Describe a file: its format, its content, and the records that builders would build from it",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return listLogs(cmd)
			}
			if model.Policy != "" && model.Tokenizer == "" {
				return exit.Usagef("--tokenizer is empty: expected the folder of the tokenizer of %s", model.Policy)
			}
			var err error
			if in.Map, err = inspect.KeyMap(keys); err != nil {
				return err
			}
			if model.Policy != "" {
				t, err := collate.Open(cmd.Context(), model, 0)
				if err != nil {
					return err
				}
				defer t.Close()
				in.Prove = t.Prover(model.Policy)
			}
			in.Paths = paths
			found, err := inspect.Inspect(cmd.Context(), in)
			if err != nil {
				return err
			}
			var shown any = found
			if len(found.Reports) == 1 {
				shown = found.Reports[0]
			}
			return printResult(cmd, shown, func(w io.Writer) error {
				return lists.Each(found.Reports, func(r *inspect.Report) error { return r.Screen(w) })
			})
		},
	}
	f := cmd.Flags()
	inputFlags(f, &in.Source, &keys)
	f.StringVar(&model.Policy, "policy", "", "the model whose calls are checked, as named in the traces")
	f.StringVar(&model.Tokenizer, "tokenizer", "", "folder with the model's tokenizer")
	f.StringVar(&model.Template, "template", "", "the model's chat template, if not the tokenizer's own")
	cmd.MarkFlagsRequiredTogether("policy", "tokenizer")
	f.StringVar(&in.Where, "where", "",
		"examine only examples that meet this `EXPRESSION`, as in dataset.where; clauses about tasks or records are ignored")
	f.BoolVar(&in.Quick, "quick", false, "read only a sample of each file")
	return cmd
}

// listLogs lists agent logs found in their usual locations.
func listLogs(cmd *cobra.Command) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	logs := inspect.FindLogs(home, os.Getenv)
	return printResult(cmd, map[string]any{"logs": logs}, func(w io.Writer) error { return inspect.ScreenLogs(w, logs) })
}

func newInitCmd() *cobra.Command {
	in := inspect.Options{Tokenizers: true}
	var formats, keys []string
	var file string
	cmd := &cobra.Command{
		Use:   "init PATH...",
		Short: "Look at an input and write a small, commented configuration for it",
		RunE: func(cmd *cobra.Command, paths []string) error {
			in.Paths = append(in.Paths, paths...)
			if len(in.Paths) == 0 {
				return exit.Usagef("missing input: `nat-go init FILE`")
			}
			var err error
			if in.Map, err = inspect.KeyMap(keys); err != nil {
				return err
			}
			r, err := inspect.Look(cmd.Context(), in)
			if err != nil {
				return err
			}
			if len(formats) > 0 {
				r.Choice.Formats = formats
			}
			if len(r.Choice.Builders) == 0 {
				_ = r.Screen(cmd.ErrOrStderr())
				return exit.Failedf("%s: %s", in.Paths[0], r.Choice.Why)
			}
			text := r.YAML()
			if file != "" {
				if err := writeNew(file, text); err != nil {
					return err
				}
			}
			if asJSON(cmd) {
				out := map[string]any{"config": string(text), "file": file, "report": r}
				return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
			}
			if err := r.Screen(cmd.ErrOrStderr()); err != nil {
				return err
			}
			if file == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(),
				"wrote %[1]s; continue with\n  nat-go validate %[1]s\n  nat-go run --config-file %[1]s\n", file)
			return err
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&in.Paths, "from", nil,
		"input file, folder or pattern (repeatable); same as passing it as an argument")
	inputFlags(f, &in.Source, &keys)
	f.StringArrayVar(&in.Builders, "builder", nil, "the builder to use (repeatable); default: the one that suits the input")
	f.StringArrayVar(&formats, "format", nil, "row format to write (repeatable); default: the one that suits the builder")
	f.StringVarP(&file, "write", "w", "", "write to this file, which must not exist, instead of standard output")
	return cmd
}

// inputFlags adds the flags for commands that read an input without a configuration.
func inputFlags(f *pflag.FlagSet, sourceType *string, keys *[]string) {
	f.StringVar(sourceType, "source", "", "how inputs are read; default: recognised from the first entries")
	f.StringArrayVar(keys, "map", nil, "meaning of a key in the input (repeatable): output=response, "+
		"score=metadata.judge.score; it takes "+readers.MapTakes)
}

// writeNew creates a file with the given text. It returns an error if the file exists.
func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usagef("%s exists already: choose another name, or remove it", path)
	}
	if err == nil {
		_, err = f.Write(text)
		err = cmp.Or(err, f.Close())
	}
	if err != nil {
		return exit.Environmentf("cannot write the configuration: %w", err)
	}
	return nil
}

func newValidateCmd() *cobra.Command {
	var file, format, compat string
	var overrides []string
	var noPlugins, noFiles bool
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration and report all problems",
		Args:  cobra.MaximumNArgs(1),
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
	return config.Options{
		Types: builtin.Types(), Compat: compat == "nat",
		Overrides: lists.Map(overrides, func(o string) config.Override { return config.Override(o) }),
	}, nil
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
