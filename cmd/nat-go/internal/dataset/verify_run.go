package dataset

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// VerifyRun compares a run's folder with its manifest, file by file, and reports files that differ, are missing, or
// aren't in the manifest. It doesn't rehash files that Verify has read. If the manifest can't be read, manifest is
// nil, and why is the reason.
func (r *Report) VerifyRun(run runfolder.Folder, manifest *runfolder.Manifest, why error) error {
	before := r.Findings // the new findings are put before these
	r.Findings = []Defect{}
	v := r.verifier()
	defer func() { r.Findings = append(r.Findings, before...) }()
	if err := v.checkLock(run); err != nil {
		return err
	}
	name := run.Rel(run.Manifest())
	switch {
	case errors.Is(why, fs.ErrNotExist):
		v.find(Defect{Code: notVerifiable, File: name}, "not verifiable: the run's manifest, which "+
			"lists its files, is missing; `nat-go finetune resume %s` continues an interrupted run", run)
	case why != nil:
		v.find(Defect{Code: notVerifiable, File: name}, "not verifiable: %v", why)
	case manifest.Files == nil:
		v.find(Defect{Code: notVerifiable, File: name},
			"not verifiable: the manifest lacks hashes of the run's files, because it was written by an older nat-go")
	default:
		if manifest.Status != runfolder.Completed {
			v.find(Defect{Code: notVerifiable, File: name}, "the run ended as %s: %s", manifest.Status, manifest.Error)
		}
		if err := v.files(run, manifest, r.Files); err != nil {
			return err
		}
	}
	return nil
}

// checkLock reports a process that is working in the folder or was killed while doing so, and any remaining temporary
// files.
func (v *verifier) checkLock(run runfolder.Folder) error {
	at := Defect{Code: interrupted, File: "."}
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
	err := run.Walk(func(rel string, info fs.FileInfo) (err error) {
		want, inManifest := due[rel]
		delete(due, rel)
		got, read := known[rel]
		at := Defect{Code: manifestWrong, File: rel}
		switch regular := info.Mode().IsRegular(); {
		case inManifest && rows[rel]:
		case !inManifest:
			if regular && !read { // rows have already been reported by Verify
				v.find(at, "file is in the folder but not in the manifest")
			}
		case !regular && !info.IsDir():
			v.find(at, "not a regular file")
		case regular && info.Size() != want.Bytes:
			v.find(at, "file has %d bytes, but %d were written", info.Size(), want.Bytes)
		default:
			if !read {
				got, err = run.Sum(rel)
			}
			if err == nil && got.XXH3 != want.XXH3 {
				v.find(at, "content has changed since it was written: xxh3 is %s, was %s", got.XXH3, want.XXH3)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", run, err)
	}
	for _, f := range manifest.Files {
		if _, missing := due[f.Path]; missing && !rows[f.Path] {
			v.find(Defect{Code: manifestWrong, File: f.Path}, "file is in the manifest but not in the folder")
		}
	}
	return nil
}

// VerifyLog compares the manifest and the rows with the record log and the curation decisions. It reports a log or
// decisions that can't be read, counts that don't match, and rows whose record is not in the log, was dropped, or is on
// the other side of the split. Hashes alone don't reveal such defects, because a file can be edited together with its
// hash.
func (r *Report) VerifyLog(p *Place, manifest *runfolder.Manifest) error {
	return r.verifier().log(p, manifest)
}

func (v *verifier) log(p *Place, manifest *runfolder.Manifest) error {
	at := Defect{Code: logDiffers, File: p.Run.Rel(p.Run.Decisions())}
	d, err := p.Decisions()
	if err != nil {
		v.find(at, "%v", err)
		return nil
	}
	v.counts(p.Run, manifest, d)
	v.always(p, manifest)
	at.File = p.Run.Rel(filepath.Join(p.Run.Records(), recordlog.LogName))
	var all []*originsRead
	defer func() {
		for _, o := range all {
			o.stop()
			o.file.Close()
		}
	}()
	for _, f := range p.Texts() {
		if f.Origins == "" {
			name := p.Run.Rel(f.Dir) + "/" + originsName
			v.find(Defect{Code: logDiffers, File: name}, "the file is missing, so the origin of the rows is unknown")
			continue
		}
		o, err := v.readOrigins(f)
		if err != nil {
			return err
		}
		all = append(all, o)
	}
	for g, err := range recordlog.GroupsAhead(p.Run.Records()) {
		if err != nil {
			v.find(at, "%v", err)
			return nil
		}
		for i := range g.Records {
			if err := builders.CheckTexts(g.Records[i].Record); err != nil {
				v.find(at, "record %d %v", g.First+uint64(i), err)
			}
		}
		for _, o := range all {
			o.group(g, d)
		}
	}
	for _, o := range all {
		if err := o.rest(v); err != nil {
			return err
		}
	}
	return v.again(p, d, manifest)
}

// always checks that the manifest lists the files that every run has, and that the list of drops can be read.
func (v *verifier) always(p *Place, m *runfolder.Manifest) {
	for _, path := range []string{p.Run.Config(), p.Run.Begun(), p.Run.Dropped()} {
		rel := p.Run.Rel(path)
		if !slices.ContainsFunc(m.Files, func(f runfolder.File) bool { return f.Path == rel }) {
			v.find(Defect{Code: logDiffers, File: rel}, "every run has this file, but the manifest doesn't list it")
		}
	}
	if _, err := readDrops(p.Run.Dropped()); err != nil {
		v.find(Defect{Code: logDiffers, File: p.Run.Rel(p.Run.Dropped())}, "%v", err)
	}
}

// counts compares the manifest's counts with the log and the decisions, and reports negative counts.
func (v *verifier) counts(run runfolder.Folder, m *runfolder.Manifest, d *curate.Decisions) {
	at := Defect{Code: logDiffers, File: run.Rel(run.Manifest())}
	c := &m.Counts
	if n := int64(d.Len()); c.Records != n {
		v.find(at, "manifest counts %d records, but the log has %d", c.Records, n)
	}
	if n := d.Kept(); c.Kept != n {
		v.find(at, "manifest counts %d kept records, but curation kept %d", c.Kept, n)
	}
	if c.Examples < 0 || c.Candidates < 0 {
		v.find(at, "manifest counts %d examples and %d candidates", c.Examples, c.Candidates)
	}
	for reason, n := range c.Dropped {
		if n < 0 {
			v.find(at, "manifest counts %d drops for the reason %s", n, reason)
		}
	}
	for i := range m.Books {
		if b := &m.Books[i]; b.In < 0 || b.Out < 0 {
			v.find(at, "manifest counts %d %s entering and %d leaving the stage %s", b.In, b.Unit, b.Out, b.Stage)
		}
	}
}

// originsRead reads a format's rows.jsonl in parallel with the record log, in which the groups are in the same order.
type originsRead struct {
	name   string
	splits map[string]rows.Split // splits by file
	file   interface{ Close() error }
	next   func() ([]byte, error, bool)
	stop   func()
	due    map[string]dueRecord // values allowed for the current group's kept records, by record hash in hex

	n    int64 // number of lines read
	line Origin
	more bool
	err  error
}

// dueRecord holds the values allowed in rows.jsonl for a group's records that share a hash.
type dueRecord struct {
	decision curate.Decision
	contexts [][]ttc.History
}

// has reports whether at least one of the records has all the given contexts.
func (r *dueRecord) has(contexts []hash) bool {
	return contexts == nil || slices.ContainsFunc(r.contexts, func(of []ttc.History) bool {
		return !slices.ContainsFunc(contexts, func(h hash) bool { return !slices.Contains(of, ttc.History(h)) })
	})
}

func (v *verifier) readOrigins(f FormatFolder) (*originsRead, error) {
	in, err := durable.Open(f.Origins)
	if err != nil {
		return nil, err
	}
	o := &originsRead{name: f.name(originsName), splits: map[string]rows.Split{}, file: in, due: map[string]dueRecord{}}
	for _, x := range f.Files {
		o.splits[x.Name] = x.Split
	}
	o.next, o.stop = iter.Pull2(lines.Read(bufio.NewReaderSize(in, 1<<20), int(DefaultLimits.Bytes)))
	o.advance()
	return o, nil
}

// advance reads the next line. A line that can't be read ends the comparison. The rest method returns a read error. A
// line that isn't JSON has already been reported by formatCheck.origins.
func (o *originsRead) advance() {
	line, err, ok := o.next()
	if o.err, o.more = err, ok && err == nil; !o.more {
		return
	}
	o.n++
	o.line = Origin{}
	if json.Unmarshal(line, &o.line) != nil {
		o.more = false
	}
}

// group skips the lines that belong to a group's kept records.
func (o *originsRead) group(g *recordlog.Group, d *curate.Decisions) {
	if !o.more {
		return
	}
	clear(o.due)
	for i, content := range g.Contents() {
		x := d.At(g.First + uint64(i))
		if !x.Kept() {
			continue
		}
		hash := hex.EncodeToString(content[:])
		was, ok := o.due[hash]
		if ok && was.decision != x {
			x = curate.Both
		}
		o.due[hash] = dueRecord{x, append(was.contexts, g.Contexts(i, nil))}
	}
	for o.more {
		r, ok := o.due[o.line.Record]
		x, split := r.decision, o.splits[o.line.File]
		if !ok || split == rows.Train && !x.Trains() || split == rows.Validation && !x.Validates() ||
			!r.has(o.line.Contexts) {
			return
		}
		o.advance()
	}
}

// rest reports the line at which the group method stopped, if lines remain. That line matches no kept record in the
// group of the previous line or in a later group.
func (o *originsRead) rest(v *verifier) error {
	if o.err != nil {
		return fmt.Errorf("%s: %w", o.name, o.err)
	}
	if o.more {
		v.find(Defect{Code: logDiffers, File: o.name, Row: o.n},
			"line refers to record %s in %s, but the record log doesn't have that record here with these contexts, or "+
				"curation didn't assign the record to that file", o.line.Record, o.line.File)
	}
	return nil
}
