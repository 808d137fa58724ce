package finetune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage/build"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lists"
)

// mergeCommand is the prefix of the command that a merge records in its folder's lock.
const mergeCommand = "dataset merge"

// openJoin opens the finished runs that a request joins. Their records are curated and split as if from one run, and
// written as one data set. A merge that fails removes its folder. The folder of a killed merge is removed by the next
// merge into that folder.
func openJoin(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	joined, err := openAll(ctx, req.Join, env)
	if err != nil {
		return nil, err
	}
	var keep *build.Part
	if req.KeepSplit != "" {
		of, err := openSealed(ctx, req.KeepSplit, env)
		if err != nil {
			return nil, err
		}
		keep = of.whole
	}
	p, err := joinPlan(ctx, req, joined[0], env)
	if err != nil {
		return nil, err
	}
	p.joined, p.keep, p.rules.Hold, p.starts = joined, keep, keep != nil, mergeCommand
	return p, clearKilled(p.folder)
}

// openAll opens the runs. It returns an error if one is listed twice or if their settings differ.
func openAll(ctx context.Context, folders []runfolder.Folder, env stage.Env) ([]*plan, error) {
	var all []*plan
	for _, f := range folders {
		p, err := openSealed(ctx, f, env)
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if sameFolder(p.folder, other.folder) {
				return nil, exit.Usagef("%s and %s are the same run: specify it once", other.folder, p.folder)
			}
		}
		all = append(all, p)
		if differ := all[0].settings().Changed(p.settings()); len(differ) > 0 {
			return nil, exit.Failedf("%s can't be merged with %s: they differ in %s. A data set is always made with a "+
				"single set of settings: rerun one of them with the other's settings",
				p.folder, all[0].folder, strings.Join(differ, ", "))
		}
	}
	if t := all[0].config.Collator.Teacher; t != nil && t.Dumps != "" {
		return nil, exit.Usagef("run in %s has collator.teacher.dumps, which hold logits for that run's batches, but "+
			"a merge makes new batches: repeat the runs without this setting, or with collator.teacher.logits, whose "+
			"program computes logits for the merged batches", all[0].folder)
	}
	return all, nil
}

func sameFolder(a, b runfolder.Folder) bool {
	x, errA := os.Stat(string(a))
	y, errB := os.Stat(string(b))
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// openSealed opens a run to be joined. It returns an error if the run is incomplete, has failed, or has been changed.
func openSealed(ctx context.Context, f runfolder.Folder, env stage.Env) (*plan, error) {
	f = runfolder.Folder(filepath.Clean(string(f)))
	b, err := readBegun(f)
	if err != nil {
		return nil, err
	}
	left, err := f.LeftBy()
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if left != nil {
		return nil, exit.Usagef("%s was interrupted in %s: rerun that command first", left, f)
	}
	m, err := f.ReadManifest()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Usagef("run in %s is not complete: `nat-go finetune resume %[1]s` continues it", f)
	case err != nil:
		return nil, exit.Environmentf("cannot read the run folder: %w", err)
	case m.Status != runfolder.Completed:
		return nil, exit.Failedf("run in %s failed: %s", f, m.Error)
	case m.Compat:
		return nil, exit.Usagef("run in %s was made with --compat nat: NAT's data sets can't be merged", f)
	}
	if err := checkVersion(b); err != nil {
		return nil, err
	}
	at, err := checkFiles(f, m)
	if err != nil {
		return nil, err
	}
	p, err := planOf(ctx, f, b, env)
	if err == nil {
		p.sealed, p.whole = m, &build.Part{Folder: f, At: at}
	}
	return p, err
}

// checkFiles checks the files that a merge reads against the run's manifest, and reads the cursor in the last commit of
// the record log.
func checkFiles(f runfolder.Folder, m *runfolder.Manifest) (at build.Cursor, err error) {
	for _, path := range []string{filepath.Join(f.Records(), recordlog.LogName), f.Decisions(), f.Config(), f.Begun()} {
		rel := f.Rel(path)
		got, err := f.Sum(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return at, exit.Failedf("run in %s is damaged: %s is missing", f, rel)
		case err != nil:
			return at, exit.Environmentf("cannot read the run folder: %w", err)
		case got != runfolder.Lookup(m.Files, rel):
			return at, exit.Failedf("run in %s is damaged: %s has changed since it was written (`nat-go dataset verify %[1]s`)", f, rel)
		}
	}
	c, err := recordlog.ReadCommit(f.Records())
	if err == nil && len(c.Cursor) > 0 {
		err = json.Unmarshal(c.Cursor, &at)
	}
	if err == nil && !c.Done {
		err = errors.New("its record log is not complete")
	}
	if err != nil {
		return at, exit.Failedf("run in %s is damaged: %w", f, err)
	}
	return at, nil
}

// settings returns the values that determine a run's data set, except its inputs and their paths.
func (p *plan) settings() *runfolder.Decided {
	all := runfolder.NewDecided("-") // a constant salt makes the hashes of different runs comparable
	all.Add("nat-go", p.begun.NatGo)
	for path, value := range p.config.Values() {
		name := strings.Join(path, ".")
		input := path[0] == "eval" || slices.Contains(path, "path") &&
			(path[0] == "sources" || strings.HasPrefix(name, "dataset.scores."))
		if !input && p.config.Decides(path) && !strings.HasPrefix(name, "dataset.formats.") {
			all.Add(name, value)
		}
	}
	all.Add("dataset.formats", p.formatNames())
	all.Add("dataset.split.seed", fmt.Sprint(p.rules.Split.Seed))
	return all
}

// joinPlan returns the first run's plan with the merge's folder.
func joinPlan(ctx context.Context, how Request, first *plan, env stage.Env) (*plan, error) {
	req := first.Request
	req.RunID, req.DryRun, req.From, req.PassedOver = how.RunID, true, nil, nil
	req.OutputDir = cmp.Or(how.OutputDir, filepath.Dir(string(first.folder)))
	p, err := newPlan(ctx, req, env)
	if err == nil {
		p.copyTo, p.notes = "", nil      // the first run's copyTo and notes don't apply
		p.ConfigFile = p.folder.Config() // has the same content as the first run's configuration
	}
	return p, err
}

// clearKilled removes the folder if a merge into it was killed.
func clearKilled(f runfolder.Folder) error {
	if !f.Locked() || runfolder.Has(f.Manifest()) {
		return nil
	}
	left, err := f.LeftBy()
	if err != nil || left == nil || !strings.HasPrefix(left.Command, mergeCommand) {
		return nil // creating the folder then fails, with the reason
	}
	return exit.Cant("remove the files of an interrupted merge", os.RemoveAll(string(f)))
}

// inheritAnswers copies the teachers' answers from the parts to the merge, so that teachers are asked only new
// questions. Answers are stored under the hash of their question.
func (p *plan) inheritAnswers() error {
	for _, part := range p.joined {
		err := filepath.WalkDir(part.folder.Teacher(), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Type().IsRegular() {
				return nil
			}
			if err != nil {
				return err
			}
			return copyOnce(path, filepath.Join(string(p.folder), filepath.FromSlash(part.folder.Rel(path))))
		})
		if err != nil {
			return exit.Environmentf("cannot write the run folder: %w", err)
		}
	}
	return nil
}

// copyOnce copies a file, unless the destination already exists.
func copyOnce(from, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return durable.CopyFile(to, from)
}

// joinRuns is the stage that joins the parts' logs.
func (r *run) joinRuns(ctx context.Context) (err error) {
	parts := lists.Map(r.joined, func(p *plan) *build.Part { return p.whole })
	if r.built, err = r.building().Join(ctx, parts, r.keep); err != nil {
		return err
	}
	r.made.Inputs, r.made.Counts.Candidates = r.built.At.Inputs, r.built.At.Seen.Candidates
	return r.inheritAnswers()
}
