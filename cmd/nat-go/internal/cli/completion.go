package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/explain"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/source"
)

// values returns the values of a flag or an argument, with any description after a tab.
type values func(cmd *cobra.Command) []string

// addCompletions lets shells complete the values of flags and arguments. `nat-go completion SHELL` writes the script
// for a shell.
func addCompletions(root *cobra.Command) {
	flags := map[string]values{
		"format": formatValues, "builder": builderValues, "dropped": reasonValues, "source": sourceValues,
		"compat": words("nat"), "split": words("train", "validation"), "report": words(findingFormats...),
		"prompt-as": words("user_message", "text"), "lang": words("go", "python"), "draft": words("2020-12", "07"),
	}
	arguments := map[string]values{
		"explain": codeValues, "resume": runValues, "status": runValues, "wait": runValues, "cancel": runValues,
		"show": runValues, "stats": runValues, "verify": runValues, "convert": runValues,
		"doctor": words("trl\tHugging Face's trainers"), "describe": builderValues, "try": builderValues,
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for name, list := range flags {
			if c.Flags().Lookup(name) != nil {
				then := completes(list, cobra.ShellCompDirectiveNoFileComp)
				_ = c.RegisterFlagCompletionFunc(name, then) // the flag exists
			}
		}
		if list := arguments[c.Name()]; list != nil && c.ValidArgsFunction == nil && !c.HasSubCommands() {
			c.ValidArgsFunction = completes(list, cobra.ShellCompDirectiveDefault) // the argument may also be a path
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
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

// runValues returns the run folders in the output folders. Within each output folder they are in descending order of
// name, because run ids begin with the time unless the user chose them.
func runValues(cmd *cobra.Command) []string {
	roots, err := cmd.Flags().GetStringArray("output-dir")
	if err != nil {
		roots = defaultOutputDirs
	}
	folders, _ := runfolder.List(roots...)
	out := lists.Map(folders, func(f runfolder.Folder) string { return filepath.Clean(string(f)) })
	slices.Reverse(out)
	return out
}
