package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// VerifyRun compares a run's folder with its manifest, file by file, and reports files that differ, are missing, or
// aren't in the manifest. It doesn't rehash files that Verify has read. If the manifest can't be read, manifest is nil
// and why is the reason.
func (r *Report) VerifyRun(run runfolder.Folder, manifest *runfolder.Manifest, why error) error {
	v := newVerifier()
	if err := v.checkLock(run); err != nil {
		return err
	}
	name := run.Rel(run.Manifest())
	switch {
	case errors.Is(why, fs.ErrNotExist):
		v.find(Finding{Code: notVerifiable, File: name}, "not verifiable: the run's manifest, which "+
			"lists its files, is missing; `nat-go finetune resume %s` continues an interrupted run", run)
	case why != nil:
		v.find(Finding{Code: notVerifiable, File: name}, "not verifiable: %v", why)
	case manifest.Files == nil:
		v.find(Finding{Code: notVerifiable, File: name},
			"not verifiable: the manifest lacks hashes of the run's files, because it was written by an older nat-go")
	default:
		if manifest.Status != runfolder.Completed {
			v.find(Finding{Code: notVerifiable, File: name}, "the run ended as %s: %s", manifest.Status, manifest.Error)
		}
		if err := v.files(run, manifest, r.Files); err != nil {
			return err
		}
	}
	r.Findings = slices.Insert(r.Findings, 0, v.report.Findings...)
	r.Errors, r.Warnings = r.Errors+v.report.Errors, r.Warnings+v.report.Warnings
	return nil
}

// checkLock reports a process that is working in the folder or was killed there, and any temporary files left behind.
func (v *verifier) checkLock(run runfolder.Folder) error {
	at := Finding{Code: interrupted, File: "."}
	left, err := run.LeftBy()
	var busy *runfolder.Busy
	switch {
	case errors.As(err, &busy):
		v.find(at, "%v", busy)
		return nil
	case err != nil:
		return err
	case left != nil:
		v.find(at, "%s was interrupted here, so the output is incomplete: rerun the command", left)
	}
	n, err := run.Temporaries()
	if n > 0 {
		v.warn(at, "an interrupted command left %s; the next command that writes here will remove them",
			ledger.Quantity(int64(n), "temporary file"))
	}
	return err
}

// files compares the files in the folder, other than rows, with the manifest.
func (v *verifier) files(run runfolder.Folder, manifest *runfolder.Manifest, read []Verified) error {
	rows := map[string]bool{} // files that Verify has already compared
	for _, w := range manifest.Dataset {
		for _, f := range w.Files {
			rows[runfolder.DatasetFile(f.Path, 0, "").Path] = true
		}
	}
	known := map[string]runfolder.File{}
	for _, f := range read {
		if f.XXH3 != "" {
			k := runfolder.DatasetFile(f.Path, f.Bytes, f.XXH3)
			known[k.Path] = k
		}
	}
	due := map[string]runfolder.File{}
	for _, f := range manifest.Files {
		due[f.Path] = f
	}
	err := run.Walk(func(rel string, info fs.FileInfo) error {
		want, ok := due[rel]
		delete(due, rel)
		if rows[rel] && ok || !v.present(rel, info, want, ok, known) {
			return nil
		}
		got, ok := known[rel]
		if !ok {
			var err error
			if got, err = run.Sum(rel); err != nil {
				return err
			}
		}
		if got.XXH3 != want.XXH3 {
			v.find(Finding{Code: manifestWrong, File: rel},
				"content has changed since it was written: xxh3 is %s, was %s", got.XXH3, want.XXH3)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", run, err)
	}
	for _, f := range manifest.Files {
		if _, missing := due[f.Path]; missing && !rows[f.Path] {
			v.find(Finding{Code: manifestWrong, File: f.Path}, "file is in the manifest but not in the folder")
		}
	}
	return nil
}

// present compares the type and size of a folder entry with its manifest entry, if it has one. It reports whether the
// content still has to be compared. known holds the files that Verify has read.
func (v *verifier) present(
	rel string, info fs.FileInfo, want runfolder.File, inManifest bool, known map[string]runfolder.File,
) bool {
	at := Finding{Code: manifestWrong, File: rel}
	switch {
	case info.IsDir() && inManifest:
		return true
	case !info.Mode().IsRegular():
		if inManifest {
			v.find(at, "not a regular file")
		}
		return false
	case !inManifest:
		if _, row := known[rel]; !row { // rows have already been reported by Verify
			v.find(at, "file is in the folder but not in the manifest")
		}
		return false
	case info.Size() != want.Bytes:
		v.find(at, "file has %d bytes, but %d were written", info.Size(), want.Bytes)
		return false
	}
	return true
}
