package write

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Stage writes text rows.
type Stage struct {
	*stage.Account
	dataset.Spec
	Folder runfolder.Folder
	Compat compat.Mode
	Tokens bool   // whether the run makes token batches
	CopyTo string // NAT's dataset_output_dir; empty means no copy
	// Parts holds the shards' outputs if the rows were written in parts, and Joined holds the result of joining them.
	// If Parts is nil, Run writes the rows.
	Parts  []*shards.Output
	Joined []runfolder.Written
}

// dropsOf returns the list of the drops from writing a part.
func dropsOf(f runfolder.Folder) string { return filepath.Join(string(f), "drops.jsonl") }

// Run writes the rows of the requested text formats and, in NAT's mode, NAT's trajectories. If none of the records are
// kept, it writes no rows, but lists the drops. If the rows were written in parts, it only replays their drops.
func (s Stage) Run(ctx context.Context) (written []runfolder.Written, err error) {
	d := s.Decisions
	err = s.Compat.WriteTrajectories(s.Folder.Format(dataset.Trajectories), s.Log, s.RunID, d)
	if err != nil {
		return nil, exit.Environmentf("cannot write NAT's trajectories: %w", err)
	}
	if written = s.Joined; s.Parts == nil {
		written, err = dataset.Write(ctx, s.spec(s.Drop, s.List, func(_, end uint64) {
			s.Tell(stage.Progress{Step: "write", Done: int64(end), Total: int64(d.Len()), Unit: stage.UnitRecord})
		}))
	}
	for _, p := range s.Parts {
		if err == nil {
			err = s.Replay(dropsOf(p.Folder))
		}
	}
	if err != nil {
		return nil, exit.Environmentf("cannot write the data set: %w", err)
	}
	s.warnOfRefused(written)
	s.warnOfContexts(written)
	s.warnOfReader(written)
	kept := d.Kept()
	for _, w := range written {
		s.Info("rows written", "format", w.Format, "records", w.Records)
		s.In(ledger.Write, dataset.Unit(w.Format), kept)
		s.Out(ledger.Write, dataset.Unit(w.Format), w.Records)
		if t := w.Contexts; t != nil && t.Lost > 0 {
			s.In(ledger.Write, dataset.TurnUnit(w.Format), t.Turns+t.Lost)
			s.Out(ledger.Write, dataset.TurnUnit(w.Format), t.Turns)
		}
	}
	if kept > 0 && s.CopyTo != "" {
		err = s.copyForNAT()
	}
	return written, err
}

// spec completes the specification that package dataset needs to write rows.
func (s Stage) spec(dropped, notKept func(ledger.Drop), progress func(first, end uint64)) dataset.Spec {
	spec := s.Spec
	if spec.Decisions.Kept() == 0 { // without formats, the log is read only to list the drops
		spec.Formats = nil
	}
	spec.Dropped, spec.NotKept, spec.Progress = dropped, notKept, progress
	return spec
}

// RunPart writes the rows of a range of the log.
func (s Stage) RunPart(ctx context.Context, x recordlog.Range) (*dataset.Share, error) {
	drops, err := s.NewList(dropsOf(s.Folder))
	if err != nil {
		return nil, err
	}
	defer drops.Abort()
	share, err := dataset.WritePart(ctx, s.spec(drops.List, drops.List, func(first, _ uint64) {
		s.Tell(stage.Progress{Step: "write", Done: int64(first - x.First), Unit: stage.UnitRecord})
	}), recordlog.GroupsIn(s.Log, x))
	if err != nil {
		return nil, err
	}
	return share, drops.Close()
}

// Join joins the rows that were written in parts. Run then accounts for them.
func (s Stage) Join(ctx context.Context) ([]runfolder.Written, error) {
	var shares []*dataset.Share
	var dirs []string
	spec := s.Spec
	spec.Formats = nil
	for _, p := range s.Parts {
		shares, dirs = append(shares, p.Rows), append(dirs, p.Folder.Dataset())
		if len(p.Rows.Formats) > 0 { // Formats is empty if no records are kept
			spec.Formats = s.Formats
		}
	}
	rows, err := dataset.Join(ctx, spec, shares, dirs)
	return rows, exit.Cant("write the data set", err)
}

// warnOfRefused warns about records that formats can't represent, giving the reasons and a format that can represent
// them, unless one of the run's formats represents all records. It also warns about messages and turns that formats
// omit.
func (s Stage) warnOfRefused(written []runfolder.Written) {
	whole := slices.ContainsFunc(written, func(w runfolder.Written) bool { return w.Dropped == 0 })
	for _, w := range written {
		if w.Trimmed > 0 {
			s.Warn("%s: omitted %s after the assistant's last turn, with no effect on training", w.Format,
				ledger.Quantity(w.Trimmed, "message"))
		}
		s.warnOfOmitted(w)
		s.warnOfTurns(w)
		if whole {
			continue
		}
		var why []string
		for _, x := range w.Refused[:min(len(w.Refused), 3)] {
			why = append(why, fmt.Sprintf("%s (%d)", x.Why, x.Count))
		}
		cure := "token batches (collator.tokenizer) may carry them"
		switch {
		case w.Instead == "" && s.Tokens:
			cure = "the run's token batches may carry them"
		case w.Instead != "":
			cure = fmt.Sprintf("%s can: `nat-go dataset convert RUN --format %[1]s`, or dataset.formats", w.Instead)
		}
		s.Warn("%s can't carry %s of %d: %s; %s", w.Format, ledger.Quantity(w.Dropped, stage.UnitRecord),
			w.Dropped+w.Records, strings.Join(why, "; "), cure)
	}
}

// maxOmitted is the maximum number of members that warnOfOmitted names; the manifest lists all of them.
const maxOmitted = 5

// warnOfOmitted warns about parts of records, most of them members of messages, that a format can't represent.
func (s Stage) warnOfOmitted(w runfolder.Written) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.Omitted)) {
		records := ledger.Quantity(w.Omitted[name], stage.UnitRecord)
		parts = append(parts, fmt.Sprintf("%s in %s", terminal.Line(name), records))
	}
	if more := len(parts) - maxOmitted; more > 0 {
		parts = append(parts[:maxOmitted], fmt.Sprintf("and %d others", more))
	}
	if parts != nil {
		s.Warn("%s rows omit members that they can't hold: %s", w.Format, strings.Join(parts, ", "))
	}
}

// warnOfContexts warns about formats in which some trained turns have a different context from the one that the model
// had. It doesn't warn if the only change is redaction, which is intended.
func (s Stage) warnOfContexts(written []runfolder.Written) {
	for _, w := range written {
		if c := w.Contexts; c != nil && slices.ContainsFunc(slices.Collect(maps.Keys(c.Changed)), func(by string) bool {
			return by != builders.Redacted.String()
		}) {
			s.Warn("%s: %s", w.Format, dataset.ContextsInWords(c))
		}
	}
}

// warnOfTurns warns about turns without a row in a format, and about rows that repeat text.
func (s Stage) warnOfTurns(w runfolder.Written) {
	if text := dataset.TurnsLost(w); text != "" {
		s.Warn("%s", text)
	}
	if w.Contexts == nil {
		return
	}
	total, repeated := int64(0), w.Contexts.Repeated
	for _, f := range w.Files {
		total += f.Bytes
	}
	if once := total - repeated; repeated > once { // the rows are more than twice as long as the text
		s.Warn("%s has a row for each of %s. Each row repeats all preceding text, so the rows have %.1f times the text "+
			"of the conversations. If the trainer masks all but the assistant's text, set dataset.completion: stretch to "+
			"write one row for turns without a context-only turn between them; formats that mark the text to train on "+
			"(axolotl, ms_swift) don't repeat text",
			w.Format, ledger.Quantity(w.Contexts.Turns, "turn"), float64(total)/float64(once))
	}
}

// warnOfReader warns about JSON Lines files that current versions of Hugging Face datasets read differently, and names
// the format that has the same rows with declared columns.
func (s Stage) warnOfReader(written []runfolder.Written) {
	for _, w := range written {
		for _, f := range w.Files {
			now, table := f.ReadToday(), w.Format+rows.TableSuffix
			if len(now) == 0 {
				continue
			}
			cure := table + " has the same rows with their columns declared"
			if !slices.ContainsFunc(written, func(w runfolder.Written) bool { return w.Format == table }) {
				cure = fmt.Sprintf("`nat-go dataset convert RUN --format %s` writes the same rows with their columns declared", table)
			}
			s.Warn("%s: Hugging Face datasets reads it differently: %s; %s", f.Path, strings.Join(now, "; "), cure)
		}
	}
}

// copyForNAT copies the Customizer's files to <dataset_output_dir>/<run_id>/, the folder where NAT writes them.
func (s Stage) copyForNAT() error {
	to := filepath.Join(s.CopyTo, s.RunID)
	from := s.Folder.Format("customizer")
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err != nil || !strings.HasSuffix(e.Name(), "_file.jsonl") {
			continue
		}
		if err = os.MkdirAll(to, 0o755); err == nil {
			err = durable.CopyFile(filepath.Join(to, e.Name()), filepath.Join(from, e.Name()))
		}
	}
	return exit.Cant("copy the data set to dataset_output_dir", err)
}
