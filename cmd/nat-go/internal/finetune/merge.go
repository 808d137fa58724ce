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

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/source"
)

// mergeCommand is the prefix of the command that a merge records in its folder's lock.
const mergeCommand = "dataset merge"

// part is a run that is joined with others.
type part struct {
	folder   runfolder.Folder
	begun    *runfolder.Begun
	manifest *runfolder.Manifest
	plan     *plan
	at       cursor // position at the end of the run's inputs
}

// joining holds the runs that a merge joins.
type joining struct {
	parts []*part
	keep  *part // the run whose validation side is kept; nil means a new split
}

// openJoin opens the finished runs that a request joins. Their records are curated and split as if from one run, and
// written as one data set. A merge that fails removes its folder. The folder of a killed merge is removed by the next
// merge into that folder.
func openJoin(ctx context.Context, req Request, env stage.Env) (*plan, error) {
	j := &joining{}
	var err error
	if j.parts, err = openParts(ctx, req.Join, env); err != nil {
		return nil, err
	}
	if req.KeepSplit != "" {
		if j.keep, err = openPart(ctx, req.KeepSplit, env); err != nil {
			return nil, err
		}
	}
	p, err := joinPlan(ctx, req, j.parts[0], env)
	if err != nil {
		return nil, err
	}
	p.join, p.rules.Hold, p.made = j, j.keep != nil, mergeCommand
	return p, clearKilled(p.folder)
}

// openParts opens the runs. It returns an error if one is listed twice or if their settings differ.
func openParts(ctx context.Context, folders []runfolder.Folder, env stage.Env) ([]*part, error) {
	var parts []*part
	for _, f := range folders {
		p, err := openPart(ctx, f, env)
		if err != nil {
			return nil, err
		}
		for _, other := range parts {
			if sameFolder(p.folder, other.folder) {
				return nil, exit.Usagef("%s and %s are the same run: name it once", other.folder, p.folder)
			}
		}
		parts = append(parts, p)
		if differ := parts[0].settings().Changed(p.settings()); len(differ) > 0 {
			return nil, exit.Failedf("%s can't be merged with %s: they differ in %s. A data set is always made with a single set "+
				"of settings: rerun one of them with the other's settings",
				p.folder, parts[0].folder, strings.Join(differ, ", "))
		}
	}
	if t := parts[0].plan.config.Collator.Teacher; t != nil && t.Dumps != "" {
		return nil, exit.Usagef("run in %s has collator.teacher.dumps, which hold logits for that run's batches, but "+
			"a merge makes new batches: repeat the runs without this setting, or with collator.teacher.logits, whose "+
			"program computes logits for the merged batches", parts[0].folder)
	}
	return parts, nil
}

func sameFolder(a, b runfolder.Folder) bool {
	x, errA := os.Stat(string(a))
	y, errB := os.Stat(string(b))
	return errA == nil && errB == nil && os.SameFile(x, y)
}

// openPart opens a run to be joined. It returns an error if the run is incomplete, has failed, or has been changed.
func openPart(ctx context.Context, f runfolder.Folder, env stage.Env) (*part, error) {
	p := &part{folder: runfolder.Folder(filepath.Clean(string(f)))}
	var err error
	if p.begun, err = readBegun(p.folder); err != nil {
		return nil, err
	}
	left, err := p.folder.LeftBy()
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	if left != nil {
		return nil, exit.Usagef("%s was interrupted in %s: rerun that command first", left, p.folder)
	}
	p.manifest, err = p.folder.ReadManifest()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, exit.Usagef("run in %s is not complete: `nat-go finetune resume %[1]s` continues it", p.folder)
	case err != nil:
		return nil, exit.Environmentf("can't read the run folder: %w", err)
	case p.manifest.Status != runfolder.Completed:
		return nil, exit.Failedf("run in %s failed: %s", p.folder, p.manifest.Error)
	case p.manifest.Compat:
		return nil, exit.Usagef("run in %s was made with --compat nat: NAT's data sets can't be merged",
			p.folder)
	}
	if err := checkVersion(p.begun); err != nil {
		return nil, err
	}
	if err := p.checkFiles(); err != nil {
		return nil, err
	}
	p.plan, err = planOf(ctx, p.folder, p.begun, env)
	return p, err
}

// checkFiles checks the files that a merge reads against the run's manifest, and reads the cursor in the last commit of
// the record log.
func (p *part) checkFiles() error {
	f := p.folder
	for _, path := range []string{filepath.Join(f.Records(), recordlog.LogName), f.Decisions(), f.Config(), f.Begun()} {
		rel := f.Rel(path)
		got, err := f.Sum(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return exit.Failedf("run in %s is damaged: %s is gone", f, rel)
		case err != nil:
			return exit.Environmentf("can't read the run folder: %w", err)
		case got != runfolder.Lookup(p.manifest.Files, rel):
			return exit.Failedf("run in %s is damaged: %s has changed since it was written (`nat-go dataset verify %[1]s`)", f, rel)
		}
	}
	c, err := recordlog.ReadCommit(f.Records())
	if err == nil && len(c.Cursor) > 0 {
		err = json.Unmarshal(c.Cursor, &p.at)
	}
	if err == nil && !c.Done {
		err = errors.New("its record log is not complete")
	}
	if err != nil {
		return exit.Failedf("run in %s is damaged: %w", f, err)
	}
	return nil
}

// settings returns the values that determine a run's data set, except its inputs and their paths.
func (p *part) settings() *runfolder.Decided {
	all := runfolder.NewDecided("-") // a constant salt makes the hashes of different runs comparable
	all.Add("nat-go", p.begun.NatGo)
	for path, value := range p.plan.config.Values() {
		name := strings.Join(path, ".")
		input := path[0] == "eval" || slices.Contains(path, "path") &&
			(path[0] == "sources" || strings.HasPrefix(name, "dataset.scores."))
		if !input && p.plan.config.Decides(path) && !strings.HasPrefix(name, "dataset.formats.") {
			all.Add(name, value)
		}
	}
	all.Add("dataset.formats", p.plan.formatNames())
	all.Add("dataset.split.seed", fmt.Sprint(p.plan.rules.Split.Seed))
	return all
}

// joinPlan returns the first run's plan with the merge's folder.
func joinPlan(ctx context.Context, how Request, first *part, env stage.Env) (*plan, error) {
	req := first.plan.Request
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
	if err := os.RemoveAll(string(f)); err != nil {
		return exit.Environmentf("cannot remove the files of an interrupted merge: %w", err)
	}
	return nil
}

// inheritAnswers copies the teachers' answers from the parts to the merge, so that teachers are asked only new
// questions. Answers are stored under the hash of their question.
func (j *joining) inheritAnswers(to runfolder.Folder) error {
	for _, part := range j.parts {
		err := filepath.WalkDir(part.folder.Teacher(), func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && !e.Type().IsRegular() {
				return nil
			}
			if err != nil {
				return err
			}
			return copyOnce(path, filepath.Join(string(to), filepath.FromSlash(part.folder.Rel(path))))
		})
		if err != nil {
			return exit.Environmentf("can't write the run folder: %w", err)
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

// joiner joins finished runs.
type joiner struct{ run *run }

// joinRuns is the stage that writes the groups of all parts to the log, one part after another, and adds them to the
// index and the books.
func (r joiner) joinRuns(ctx context.Context) error {
	p := r.run.plan
	b := newRecording(r.run)
	if err := b.openLog(ctx); err != nil {
		return err
	}
	defer b.log.Close()
	for _, part := range p.join.parts {
		if err := b.appendPart(ctx, part); err != nil {
			return err
		}
	}
	if err := b.commit(true); err != nil {
		return err
	}
	if keep := p.join.keep; keep != nil {
		if err := b.hold(ctx, keep); err != nil {
			return err
		}
	}
	b.finish()
	return p.join.inheritAnswers(p.folder)
}

// numbering assigns a part's inputs their numbers in the merge.
type numbering struct {
	numbers []int // by the part's own number
	base    int   // number of inputs in the merge before this part's were added
	fresh   []source.Input
	done    map[*builders.Origin]bool // origins already renumbered; several records may share an origin
}

// number numbers p's inputs. An input that an earlier part also read keeps its number. The others, which are fresh, get
// the next numbers. No two inputs of a part get the same number, even if their contents are equal: the part's run used
// both.
func (b *recording) number(p *part) *numbering {
	n := &numbering{base: len(b.at.Inputs), done: map[*builders.Origin]bool{}}
	taken := make([]bool, n.base)
	for _, in := range p.at.Inputs {
		i := 0
		for i < n.base && (taken[i] || !sameContent(b.at.Inputs[i], in)) {
			i++
		}
		if i < n.base {
			taken[i] = true
		} else {
			i += len(n.fresh)
			n.fresh = append(n.fresh, in)
		}
		n.numbers = append(n.numbers, i)
	}
	return n
}

// of returns an input's number in the merge.
func (n *numbering) of(run int) int {
	if run >= 0 && run < len(n.numbers) {
		return n.numbers[run]
	}
	return n.base + run
}

// group renumbers the inputs of a group's records and drops.
func (n *numbering) group(g *recordlog.Group) {
	clear(n.done)
	for i := range g.Records {
		if o := g.Records[i].Origin; !n.done[o] {
			n.done[o], o.Run = true, n.of(o.Run)
		}
	}
	for i := range g.Drops {
		g.Drops[i].Run = n.of(g.Drops[i].Run)
	}
}

// appendPart appends a part's groups, with the numbers that its inputs have in the merge.
func (b *recording) appendPart(ctx context.Context, p *part) error {
	n := b.number(p)
	b.at.Inputs = append(b.at.Inputs, n.fresh...)
	for g, err := range recordlog.Groups(p.folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		n.group(g)
		if err := b.log.Append(g); err != nil {
			return logError("write the record log", err)
		}
		if err := b.take(g); err != nil {
			return err
		}
		b.out.Tell(stage.Progress{Step: "merge", Done: int64(b.index.Len()), Unit: stage.UnitRecord})
	}
	b.at.Seen.Add(&p.at.Seen)
	b.at.Groups += p.at.Groups
	return nil
}

// sameContent reports whether two inputs have the same content, regardless of their location.
func sameContent(a, b source.Input) bool {
	return a.Same(b) || a.Sum != 0 && a.Sum == b.Sum && a.Size == b.Size
}

// hold adds keep's validation side to the index. It returns an error if that run doesn't have one. An input's number is
// part of a record's identity, so keep's inputs get their numbers in the merge.
func (b *recording) hold(ctx context.Context, keep *part) error {
	d, err := (&dataset.Place{Run: keep.folder}).Decisions()
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	n, held := b.number(keep), 0
	var entries []curate.Entry
	for g, err := range recordlog.Groups(keep.folder.Records()) {
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return exit.Default(exit.Environment, err)
		}
		n.group(g)
		entries = curate.EntriesOf(entries[:0], g, curate.Gates{})
		for _, e := range entries {
			if !d.At(e.Ordinal).Validates() {
				continue
			}
			held++
			if err := b.index.Hold(e); err != nil {
				return exit.Environmentf("can't sort the records: %w", err)
			}
		}
	}
	if held == 0 {
		return exit.Failedf("run in %s has no validation side to keep", keep.folder)
	}
	return nil
}
