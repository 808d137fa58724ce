package session

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// find returns the files to read: the named files, and all files below the named folders whose names end in one of
// the extensions, with or without .gz or .zst; for Harbor's jobs, it returns the trajectories. The files are sorted
// and free of duplicates. It records trials without a trajectory. If there are several files, it omits and records
// empty ones.
func find(ctx context.Context, paths []string, tally *source.Tally, extensions ...string) ([]string, error) {
	named, err := source.Matches(paths)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range named {
		if info, err := os.Stat(p); err != nil || !info.IsDir() {
			out = append(out, p)
			continue
		}
		var all []string
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.Type().IsRegular() && hasExtension(path, extensions) {
				all = append(all, path)
			}
			return nil
		})
		if err != nil {
			return nil, source.Failure(p, err.Error(), "", err)
		}
		kept, lacking := source.Trajectories(all)
		out = append(out, kept...)
		for _, trial := range lacking {
			tally.Drop(source.LackingTrial(ctx, trial))
		}
	}
	some := len(out) > 1
	out = slices.DeleteFunc(out, func(path string) bool { // a program that is killed may leave an empty file
		info, err := os.Stat(path)
		empty := err == nil && info.Mode().IsRegular() && info.Size() == 0 && some
		if empty {
			tally.Drop(ledger.Drop{Unit: "file", Reason: OtherFormat, Detail: "it is empty", Index: -1, File: path})
		}
		return empty
	})
	if len(out) == 0 {
		return nil, source.Failure(strings.Join(paths, ", "),
			"cannot find a file with the extension "+strings.Join(extensions, " or "),
			"Specify the folder that holds the sessions, or the files themselves", nil)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func hasExtension(path string, extensions []string) bool {
	path = strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".zst")
	return slices.ContainsFunc(extensions, func(ext string) bool { return strings.HasSuffix(path, ext) })
}
