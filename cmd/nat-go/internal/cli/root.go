package cli

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
	_ "github.com/nat-go/nat-go/cmd/nat-go/internal/heapstart" // delays the first garbage collection
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/source"
)

// Program is nat-go, with the settings that only tests change.
type Program struct {
	CommitBytes int64 // maximum number of bytes of the record log that a run may lose in a crash; 0 means the default
}

// Main runs the command line and returns the exit code.
func (p Program) Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if err := checkSpace(); err != nil {
		fmt.Fprintf(stderr, "nat-go: %v\n", err)
		return exit.Environment
	}
	tuneCollector()
	// Otherwise, SIGPIPE would end the program in the middle of its work if a reader such as head exited early. Child
	// processes keep the default behaviour.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	defer signal.Stop(pipes)
	out, diagnostics := terminal.NewWriter(stdout), terminal.NewWriter(stderr)
	defer diagnostics.Flush() //nolint:errcheck // at most an incomplete character
	code := p.run(args, stdin, out, diagnostics)
	_ = out.Flush() // Err also returns Flush's error
	if err := out.Err(); err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintf(diagnostics, "nat-go: some of the output was not written: %v\n", err)
		if code == exit.OK {
			code = exit.Environment
		}
	}
	return code
}

func (p Program) run(args []string, stdin io.Reader, stdout, stderr *terminal.Writer) int {
	root := newRootCmd(p)
	root.SetArgs(config.JoinOverrides(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exit.OK
	}
	var coded *exit.Error
	switch {
	case errors.Is(err, syscall.EPIPE) && errors.Is(stdout.Err(), syscall.EPIPE):
		return exit.OK // the reader has stopped reading
	case errors.As(err, &coded):
		if coded.Err != nil {
			fmt.Fprintln(stderr, "nat-go: "+indent(coded.Err.Error()))
		}
		return coded.Code
	case stdout.Err() != nil:
		return exit.Environment
	}
	// Cobra's own errors are usage errors, such as an unknown command or flag, or a missing argument.
	fmt.Fprintln(stderr, "nat-go: "+indent(mistake(cmd, err)))
	return exit.Usage
}

// indent indents all lines of text except the first, so that none of them can be mistaken for a message from nat-go,
// and masks secrets.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimRight(secret.Shape(text), "\n"), "\n", "\n  ")
}

func newRootCmd(p Program) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "nat-go",
		Short:         "Turn AI-agent runs into training data and fine-tuning jobs",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if version {
				fmt.Fprintln(cmd.OutOrStdout(), "nat-go "+finetune.Version())
				return nil
			}
			if len(args) > 0 {
				return exit.Usagef("unknown command %q; `nat-go --help` lists the commands", strings.Join(args, " "))
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "version for nat-go")
	addHelp(root)
	root.SetGlobalNormalizationFunc(kebab)
	// All commands have the flags that set the level of detail and choose between text and JSON.
	f := root.PersistentFlags()
	f.BoolP("quiet", "q", false, "errors and results only: no progress, no warnings, no notes")
	f.BoolP("verbose", "v", false, "also log details that are usually omitted")
	f.Bool("json", false, "print JSON on standard output instead of text")
	root.MarkFlagsMutuallyExclusive("quiet", "verbose")
	root.AddCommand(newBenchCmd(), newCollateCmd(), newSchemaCmd(),
		newValidateCmd(), newInitCmd(), newInspectCmd(),
		newFinetuneRunCmd(p.CommitBytes), newViewCmd(), readsStored(newDoctorCmd()), newExplainCmd(), newFormatsCmd(),
		newPluginServeCmd(), newManCmd(), newVersionCmd(),
		group("shard", "Divide a run between machines: plan it, build its shards, merge them",
			newShardPlanCmd(p.CommitBytes), newShardRunCmd(p.CommitBytes), newShardStatusCmd(),
			newShardMergeCmd(p.CommitBytes),
			group("script", "Write scripts that execute a plan on Slurm, Kubernetes or Ray",
				newScriptSlurmCmd(), newScriptK8sCmd(), newScriptRayCmd())),
		group("chat", "Show how a chat template and a tokenizer process messages",
			newChatMaskCmd(), newChatProbeCmd(), newChatRenderCmd(), newChatTokensCmd()),
		group("finetune", "Build data sets, run training jobs and manage them",
			newFinetuneRunCmd(p.CommitBytes), newFinetuneResumeCmd(p.CommitBytes), readsStored(newFinetuneStatusCmd()),
			newFinetuneWaitCmd(), newFinetuneCancelCmd(), newFinetuneListCmd()),
		group("loss", "Compute exact losses and gradients from logits that a trainer dumped",
			newLossJSDCmd(), newLossCompositeCmd(), newLossCheckCmd()),
		group("dataset", "Verify, measure, show, convert and merge data sets",
			readsStored(newDatasetVerifyCmd()), readsStored(newDatasetStatsCmd()), readsStored(newDatasetShowCmd()),
			readsStored(newDatasetConvertCmd()), newDatasetMergeCmd()),
		group("builders", "List, describe, create, check and try trajectory builders", newBuildersListCmd(),
			newBuildersDescribeCmd(), newBuildersNewCmd(), newBuildersVerifyCmd(), newBuildersTryCmd()),
		group("plugins", "List and lock plugins, which provide builders", newPluginsListCmd(), newPluginsLockCmd()))
	each(root, refuseMisspelt)
	each(root, addCompletions)
	return root
}

// group returns a command that only groups subcommands.
func group(use, short string, of ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short}
	cmd.AddCommand(of...)
	return cmd
}

// each calls do for a command and all commands below it.
func each(c *cobra.Command, do func(*cobra.Command)) {
	do(c)
	for _, sub := range c.Commands() {
		each(sub, do)
	}
}

// repeatable returns the values of a repeatable flag, or nil if the command doesn't have it. It doesn't use
// GetStringArray, because that method formats and parses the values as CSV, which loses an empty value and changes line
// breaks.
func repeatable(cmd *cobra.Command, name string) []string {
	if f := cmd.Flags().Lookup(name); f != nil {
		if list, ok := f.Value.(pflag.SliceValue); ok {
			return list.GetSlice()
		}
	}
	return nil
}

// refuseMisspelt makes misspelt subcommands an error. By default, cobra prints the parent's help and exits with
// success.
func refuseMisspelt(c *cobra.Command) {
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = cobra.NoArgs
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
}

//go:embed help.yaml
var helpFile []byte

// helpTexts returns the texts in help.yaml, by command.
var helpTexts = sync.OnceValue(func() (of map[string]struct{ Long, Example string }) {
	if err := yaml.Unmarshal(helpFile, &of); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	return of
})

// describe gives a command its texts from help.yaml. It is called only for help, because parsing the file takes time.
func describe(c *cobra.Command) {
	_, name, _ := strings.Cut(c.CommandPath(), " ")
	if texts, ok := helpTexts()[name]; ok {
		c.Long, c.Example = texts.Long, texts.Example
	}
}

// addHelp appends the exit codes to each command's help text. It doesn't use cobra's templates, because package
// text/template finds methods by name at run time, so the linker would have to keep every exported method.
func addHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		describe(c)
		help(c, args)
		if c.Runnable() {
			fmt.Fprint(c.OutOrStdout(), exitCodes)
		}
	})
}

const exitCodes = `
Exit codes: 0 done; 1 the work failed, or what was checked has errors; 2 the configuration or the command line is wrong;
3 something outside nat-go is missing or failed (a plugin, a service, a library, the disk); 130, 143 ended by a signal.
`

// kebab replaces underscores in a flag's name with dashes, so that NAT's names, which have underscores, are also
// accepted.
func kebab(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
}

// natFlags maps each flag of NAT's `finetune` that nat-go lacks to the reason why it is missing.
var natFlags = map[string]string{
	"result_json_path":       "it extracts an answer from a workflow's result, but preference pairs are built from the recorded steps",
	"validation_dataset":     "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
	"validation_interval":    "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
	"validation_config_file": "NAT's preference training doesn't run validation; dataset.split takes the validation set from the pairs",
}

// mistake returns the message for an invalid command line. It rewords messages of cobra and pflag that are written
// for programmers.
func mistake(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		return unknownFlag(cmd, unknown.GetSpecifiedName())
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		value := cmp.Or(valueNames[f.Value.Type()], "a "+f.Value.Type())
		return fmt.Sprintf("--%s %s: expected %s; the flag means: %s", f.Name, invalid.GetValue(), value, f.Usage)
	case strings.Contains(err.Error(), "arg(s)"):
		return fmt.Sprintf("%v; usage: %s", err, cmd.UseLine())
	}
	return err.Error()
}

func unknownFlag(cmd *cobra.Command, name string) string {
	text := "unknown flag: --" + name
	if why := natFlags[strings.ReplaceAll(name, "-", "_")]; why != "" {
		return text + ", which is NAT's: " + why
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	near := finding.Nearest(name, known)
	for _, k := range known {
		if near == "" && len(name) > 2 && strings.HasPrefix(k, name) { // --config for --config-file
			near = k
		}
	}
	if near != "" {
		return text + "; did you mean --" + near + "?"
	}
	return text + "; `" + cmd.CommandPath() + " --help` lists the flags"
}

// valueNames describes the values of flags, by type.
var valueNames = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number", "float64": "a number",
	"bool": "true or false", "duration": "a duration such as 90s or 2m",
}

// values returns the values of a flag or an argument, with any description after a tab.
type values func(cmd *cobra.Command) []string

// flagValues lists the values of flags, and argumentValues the values of commands' arguments.
var (
	flagValues = map[string]values{
		"format": formatValues, "builder": builderValues, "dropped": reasonValues, "source": sourceValues,
		"compat": words("nat"), "split": words("train", "validation"), "report": words(findingFormats...),
		"prompt-as": words("user_message", "text"), "lang": words("go", "python"), "draft": words("2020-12", "07"),
	}
	argumentValues = map[string]values{
		"explain": codeValues, "resume": runValues, "status": runValues, "wait": runValues, "cancel": runValues,
		"show": runValues, "stats": runValues, "verify": runValues, "convert": runValues,
		"doctor": words("trl\tHugging Face's trainers"), "describe": builderValues, "try": builderValues,
	}
)

// addCompletions lets shells complete the values of a command's flags and arguments. `nat-go completion SHELL` writes
// the script for a shell.
func addCompletions(c *cobra.Command) {
	for name, list := range flagValues {
		if c.Flags().Lookup(name) != nil {
			then := completes(list, cobra.ShellCompDirectiveNoFileComp)
			_ = c.RegisterFlagCompletionFunc(name, then) // the flag exists
		}
	}
	if list := argumentValues[c.Name()]; list != nil && c.ValidArgsFunction == nil && !c.HasSubCommands() {
		c.ValidArgsFunction = completes(list, cobra.ShellCompDirectiveDefault) // the argument may also be a path
	}
}

func completes(list values, then cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		fits := slices.DeleteFunc(list(cmd), func(v string) bool { return !strings.HasPrefix(v, begun) })
		return fits, then
	}
}

func words(list ...string) values {
	return func(*cobra.Command) []string { return slices.Clone(list) }
}

func formatValues(*cobra.Command) (out []string) {
	return strings.Split(dataset.Names(), ", ")
}

func sourceValues(*cobra.Command) []string {
	return lists.Map(builtin.Sources(), func(f source.Factory) string { return f.Type })
}

func builderValues(*cobra.Command) (out []string) {
	for name, c := range builtin.Types().Builders {
		out = append(out, name+"\t"+c.Doc)
	}
	slices.Sort(out)
	return out
}

func reasonValues(cmd *cobra.Command) []string {
	return slices.DeleteFunc(codeValues(cmd), func(v string) bool { return strings.HasPrefix(v, "NG") })
}

func codeValues(*cobra.Command) (out []string) {
	pages, _ := explain.Find("")
	for _, p := range pages {
		first, _, _ := strings.Cut(p.Text, ". ")
		out = append(out, p.Code+"\t"+first)
	}
	return out
}

// runValues returns the run folders in the output folders. Within each output folder, runs are sorted by name in
// descending order. Usually, the newest run comes first, because a run id begins with the time unless the user chose
// it.
func runValues(cmd *cobra.Command) []string {
	folders, _ := runfolder.List(outputDirs(cmd)...)
	out := lists.Map(folders, func(f runfolder.Folder) string { return filepath.Clean(string(f)) })
	slices.Reverse(out)
	return out
}
