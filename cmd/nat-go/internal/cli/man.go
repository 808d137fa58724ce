package cli

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/finetune"
)

// newManCmd returns the command that writes the manual pages from the --help output.
func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write the manual pages, one per command",
		Long: `Write the manual pages, one per command, into a folder, which is created if it does not exist.

man finds the pages if the folder is named man1 and is in a folder on man's search path.`,
		Example: `  nat-go man ~/.local/share/man/man1 && man nat-go-finetune-run`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return exit.Environmentf("cannot create the folder for the manual pages: %w", err)
			}
			// The date is fixed, so that the same program always writes the same pages.
			head := &doc.GenManHeader{
				Section: "1", Source: "nat-go " + finetune.Version(), Manual: "nat-go", Date: new(time.Time),
			}
			if err := doc.GenManTree(cmd.Root(), head, args[0]); err != nil {
				return exit.Environmentf("cannot write the manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "nat-go*.1"))
			if err != nil {
				return err
			}
			return printLine(cmd, map[string]any{"pages": pages}, "wrote %d manual pages to %s",
				len(pages), args[0])
		},
	}
}
