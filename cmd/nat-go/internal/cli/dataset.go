package cli

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/objects"
)

// rowLimits adds the flags for the maximum size of a row, and returns the limits that the flags set.
func rowLimits(cmd *cobra.Command) *dataset.Limits {
	limits := dataset.DefaultLimits
	f := cmd.Flags()
	f.Int64Var(&limits.Bytes, "max-row-bytes", limits.Bytes, "reject rows with more bytes than this")
	f.Int64Var(&limits.Values, "max-row-values", limits.Values, "reject rows with more values than this")
	return &limits
}

// findDataset finds the data set that a command's argument names.
func findDataset(path string, limits dataset.Limits) (*dataset.Place, error) {
	if limits.Bytes < 1 || limits.Bytes > math.MaxInt32 || limits.Values < 1 {
		return nil, exit.Usagef("--max-row-bytes must be from 1 to %d, --max-row-values at least 1", math.MaxInt32)
	}
	if objects.Is(path) {
		return nil, exit.Usagef("this command cannot read from object storage: copy %s to a local disk", path)
	}
	p, err := dataset.Find(path, limits)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("cannot find %s", path)
	}
	return p, exit.Default(exit.Failed, err)
}

// noTexts returns the error for a data set without text rows, for commands that need them.
func noTexts(p *dataset.Place, path string) error {
	if len(p.Tokens()) > 0 {
		return exit.Failedf("%s holds only token rows, which contain no text: specify the run's folder, whose records contain it", path)
	}
	return exit.Failedf("no rows in %s", path)
}

// findRun returns the run in a folder, which must have a record log. If a command was killed while putting files in
// place, findRun completes that step.
func findRun(path string) (*dataset.Place, error) {
	p := &dataset.Place{Run: runfolder.Folder(path)}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, exit.Usagef("cannot find %s", path)
	} else if err == nil && !info.IsDir() || p.Log() == "" {
		return nil, exit.Usagef("%s is not a run's folder: specify <output_dir>/<run_id>, which has a record log", path)
	}
	p.Run.Recover()
	return p, nil
}
