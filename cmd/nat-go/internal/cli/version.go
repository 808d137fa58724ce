package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

func newVersionCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit it was built from, and Go's version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := map[string]string{"version": finetune.Version(), "commit": commit(), "go": runtime.Version()}
			return printLine(cmd, v, "nat-go %s, commit %s, %s", v["version"], v["commit"], v["go"])
		},
	}
}

// commit returns the commit that the program was built from, followed by "+dirty" if files had been changed. It returns
// "unknown" if the build didn't record one; `go build` does if git is available.
func commit() string {
	revision, dirty := "unknown", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "+dirty"
			}
		}
	}
	return revision + dirty
}
