package finetune

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
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// writing is the stage that writes text rows.
type writing struct {
	plan      *plan
	out       *report
	decisions *curate.Decisions
}

// write writes the rows of the requested text formats and, in NAT's mode, NAT's trajectories. If none of the records
// are kept, it writes no rows, but lists the drops.
func (r writing) write(ctx context.Context) error {
	p, d := r.plan, r.decisions
	if err := p.Compat.WriteTrajectories(p.folder.Format(dataset.Trajectories), p.folder.Records(), p.RunID,
		d); err != nil {
		return exit.Environmentf("can't write NAT's trajectories: %w", err)
	}
	kept, spec := d.Kept(), r.spec(p.folder.Records())
	spec.Dropped, spec.NotKept = r.out.books.drop, r.out.books.list
	spec.Progress = func(_, end uint64) {
		r.out.tell(Progress{Step: "write", Done: int64(end), Total: int64(d.Len()), Unit: unitRecord})
	}
	written, err := r.writeText(ctx, spec)
	if err != nil {
		return exit.Environmentf("can't write the data set: %w", err)
	}
	r.out.made.Dataset = written
	r.warnOfRefused(written)
	r.warnOfContexts(written)
	r.warnOfReader(written)
	for _, w := range written {
		r.out.info("rows written", "format", w.Format, "records", w.Records)
		r.out.books.In(ledger.Write, dataset.Unit(w.Format), kept)
		r.out.books.Out(ledger.Write, dataset.Unit(w.Format), w.Records)
		if t := w.Contexts; t != nil && t.Lost > 0 {
			r.out.books.In(ledger.Write, dataset.TurnUnit(w.Format), t.Turns+t.Lost)
			r.out.books.Out(ledger.Write, dataset.TurnUnit(w.Format), t.Turns)
		}
	}
	if kept > 0 && p.copyTo != "" {
		return r.copyForNAT()
	}
	return nil
}

// spec returns the specification that package dataset needs to write a log's text rows.
func (r writing) spec(log string) dataset.Spec {
	p, d := r.plan, r.decisions
	spec := dataset.Spec{
		Dir: p.folder.Dataset(), Log: log, Decisions: d, Options: p.options, Gates: p.gates(), Ready: r.out.know,
	}
	if d.Kept() > 0 { // without formats, the log is read only to list the drops
		spec.Formats = p.formats
	}
	return spec
}

// writeText writes the text rows. If they were joined from the shards' rows, it only replays the drops that occurred
// when the shards wrote them.
func (r writing) writeText(ctx context.Context, s dataset.Spec) ([]runfolder.Written, error) {
	if m := r.plan.merging; m != nil && m.cut != nil {
		for i := range m.shares {
			if err := r.out.books.replay(shareDrops(m.dir.Shard(shards.Write, i))); err != nil {
				return nil, err
			}
		}
		return m.rows, nil
	}
	return dataset.Write(ctx, s)
}

// warnOfRefused warns about records that formats can't represent, giving the reasons and a format that can represent
// them, unless one of the run's formats represents all records. It also warns about omitted messages and turns.
func (r writing) warnOfRefused(written []runfolder.Written) {
	whole := slices.ContainsFunc(written, func(w runfolder.Written) bool { return w.Dropped == 0 })
	for _, w := range written {
		if w.Trimmed > 0 {
			r.out.warn("%s: omitted %s after the assistant's last turn, with no effect on training", w.Format,
				ledger.Quantity(w.Trimmed, "message"))
		}
		r.warnOfOmitted(w)
		r.warnOfTurns(w)
		if whole {
			continue
		}
		var why []string
		for _, x := range w.Refused[:min(len(w.Refused), 3)] {
			why = append(why, fmt.Sprintf("%s (%d)", x.Why, x.Count))
		}
		cure := "token batches (collator.tokenizer) may carry them"
		switch {
		case w.Instead == "" && r.plan.config.Collator.Tokenizer != "":
			cure = "the run's token batches may carry them"
		case w.Instead != "":
			cure = fmt.Sprintf("%s can: `nat-go dataset convert RUN --format %[1]s`, or dataset.formats", w.Instead)
		}
		r.out.warn("%s can't carry %s of %d: %s; %s", w.Format, ledger.Quantity(w.Dropped, unitRecord),
			w.Dropped+w.Records, strings.Join(why, "; "), cure)
	}
}

// maxOmitted is the maximum number of members that warnOfOmitted names; the manifest lists all of them.
const maxOmitted = 5

// warnOfOmitted warns about parts of records, most of them members of messages, that a format can't represent.
func (r writing) warnOfOmitted(w runfolder.Written) {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.Omitted)) {
		parts = append(parts, fmt.Sprintf("%s in %s", terminal.Line(name), ledger.Quantity(w.Omitted[name], unitRecord)))
	}
	if more := len(parts) - maxOmitted; more > 0 {
		parts = append(parts[:maxOmitted], fmt.Sprintf("and %d others", more))
	}
	if parts != nil {
		r.out.warn("%s rows omit members that they can't hold: %s", w.Format, strings.Join(parts, ", "))
	}
}

// warnOfContexts warns about formats in which some trained turns have a different context from the one that the model
// had. It doesn't warn if the only change is redaction, which is intended.
func (r writing) warnOfContexts(written []runfolder.Written) {
	for _, w := range written {
		if c := w.Contexts; c != nil && slices.ContainsFunc(slices.Collect(maps.Keys(c.Changed)), func(by string) bool {
			return by != builders.Redacted.String()
		}) {
			r.out.warn("%s: %s", w.Format, dataset.ContextsInWords(c))
		}
	}
}

// warnOfTurns warns about turns without a row in a format, and about rows that repeat text.
func (r writing) warnOfTurns(w runfolder.Written) {
	if text := dataset.TurnsLost(w); text != "" {
		r.out.warn("%s", text)
	}
	if w.Contexts == nil {
		return
	}
	total, repeated := int64(0), w.Contexts.Repeated
	for _, f := range w.Files {
		total += f.Bytes
	}
	if once := total - repeated; repeated > once { // the rows are more than twice as long as the text
		r.out.warn("%s has a row for each of %s. Each row repeats all preceding text, so the rows have %.1f times the text "+
			"of the conversations. If the trainer masks all but the assistant's text, set dataset.completion: stretch to "+
			"write one row for turns without a context-only turn between them; formats that mark the text to train on "+
			"(axolotl, ms_swift) don't repeat text",
			w.Format, ledger.Quantity(w.Contexts.Turns, "turn"), float64(total)/float64(once))
	}
}

// warnOfReader warns about JSON Lines files that current versions of Hugging Face datasets read differently, and names
// the format that has the same rows with declared columns.
func (r writing) warnOfReader(written []runfolder.Written) {
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
			r.out.warn("%s: Hugging Face datasets reads it differently: %s; %s", f.Path, strings.Join(now, "; "), cure)
		}
	}
}

// copyForNAT copies the Customizer's files to the folder where NAT writes them: <dataset_output_dir>/<run_id>/.
func (r writing) copyForNAT() error {
	to := filepath.Join(r.plan.copyTo, r.plan.RunID)
	from := r.plan.folder.Format("customizer")
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasSuffix(e.Name(), "_file.jsonl")
	})
	if err == nil && len(entries) > 0 {
		err = os.MkdirAll(to, 0o755)
	}
	for _, e := range entries {
		if err == nil {
			err = copyFile(filepath.Join(to, e.Name()), filepath.Join(from, e.Name()))
		}
	}
	return cant("copy the data set to dataset_output_dir", err)
}

func copyFile(to, from string) error {
	in, err := durable.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.CopyOutput(to, in)
}
