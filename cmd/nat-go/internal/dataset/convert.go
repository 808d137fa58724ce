package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Converted describes the output of Convert.
type Converted struct {
	Dir     string              `json:"dataset_dir"`
	Formats []runfolder.Written `json:"formats"`
	Refused []Refused           `json:"refused,omitempty"`
}

// Refused counts the records that a format can't represent for the reason Why.
type Refused struct {
	Format string `json:"format"`
	Why    string `json:"why"`
	Count  int64  `json:"count"`
}

// Rows returns the total number of rows written.
func (c *Converted) Rows() (n int64) {
	for i := range c.Formats {
		n += c.Formats[i].Lines()
	}
	return n
}

// None returns an error if no rows were written.
func (c *Converted) None() error {
	if c.Rows() > 0 {
		return nil
	}
	if len(c.Formats) == 1 {
		if f, _ := Lookup(c.Formats[0].Format); f.FromBatches() {
			return errors.New("the run has no sft batches")
		}
	}
	return errNothing
}

// Convert writes a run's data set in other formats, from its record log, decisions and token batches. If dir is empty,
// the rows go to the run's own dataset folder and are recorded in its manifest; a failure before the last file is
// durable leaves the run unchanged. If no record fits the formats, Convert writes nothing and returns no error; see
// None.
func Convert(ctx context.Context, p *Place, formats []Format, o rows.Options, dir string) (*Converted, error) {
	c := &Converted{Dir: dir}
	defer tidy(dir)()
	write := func(ready Ready) error { return c.write(ctx, p, formats, o, ready) }
	var err error
	if dir == "" {
		c.Dir = p.Run.Dataset()
		err = intoRun(p.Run, lists.Map(formats, func(f Format) string { return f.Name }), write)
	} else {
		err = write(nil)
	}
	if errors.Is(err, errNothing) {
		err = nil
	}
	return c, err
}

// errNothing stops a conversion without rows before any file gets its final name.
var errNothing = errors.New("no records fit")

// tidy returns a function that removes dir if nothing was written to it and it did not exist before.
func tidy(dir string) func() {
	if _, err := os.Stat(dir); dir == "" || err == nil {
		return func() {}
	}
	return func() { _ = os.Remove(dir) } // intentionally fails if the folder is not empty
}

// write writes a run's rows in the formats.
func (c *Converted) write(ctx context.Context, p *Place, formats []Format, o rows.Options, ready Ready) error {
	d, err := p.Decisions()
	if err != nil {
		return err
	}
	usual, err := p.RowOptions()
	if err != nil {
		return err
	}
	return c.formats(ctx, Spec{
		Dir: c.Dir, Log: p.Log(), Batches: p.Run.Batches(), Decisions: d, Formats: formats, Options: o, NoEmpty: true,
		Ready: func(written []runfolder.Written, files []runfolder.File) error {
			for i, w := range written {
				if _, text := rows.Lookup(w.Format); text && o != usual {
					written[i].Rows = &o
				}
			}
			c.Formats = written
			switch {
			case c.Rows() == 0:
				return errNothing
			case ready == nil:
				return nil
			}
			return ready(written, files)
		},
	})
}

// formats writes the formats that s specifies, and counts the records that each format can't represent.
func (c *Converted) formats(ctx context.Context, s Spec) error {
	refused := map[Refused]int64{}
	s.Dropped = func(x ledger.Drop) {
		if x.Reason == rows.FormatCannotCarry { // lost turns are counted with the written records
			refused[Refused{Format: x.Format, Why: x.Detail}]++
		}
	}
	var err error
	c.Formats, err = Write(ctx, s)
	for r, n := range refused {
		r.Count = n
		c.Refused = append(c.Refused, r)
	}
	slices.SortFunc(c.Refused, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(a.Format, b.Format), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Why, b.Why))
	})
	return err
}

// intoRun calls the function write, which writes formats to the run's dataset folder, with the run locked. It records
// the files in the run's manifest.
func intoRun(run runfolder.Folder, formats []string, write func(Ready) error) error {
	lock, err := run.LockToConvert(formats)
	if err != nil {
		return err
	}
	defer lock.Close()
	var update *runfolder.Update
	defer func() {
		if update != nil {
			update.Abort()
		}
	}()
	err = write(func(w []runfolder.Written, all []runfolder.File) (err error) {
		if err := lock.Check(); err != nil {
			return err
		}
		if update, err = lock.AddFormats(w, all); err != nil {
			return err
		}
		// Now the files get their names. The run doesn't match its manifest until the new manifest is also in place.
		return lock.Place(update, all)
	})
	if err == nil {
		err = update.Commit()
	}
	if err == nil {
		lock.Finished()
	}
	return err
}

// Text prints a summary of the written rows.
func (c *Converted) Text(w io.Writer) error {
	var b strings.Builder
	for _, f := range c.Formats {
		for _, file := range f.Files {
			fmt.Fprintf(&b, "%s  %s\n", filepath.Join(c.Dir, filepath.FromSlash(file.Path)),
				ledger.Quantity(file.Rows, "row"))
		}
	}
	for _, f := range c.Formats {
		if text := TurnsLost(f); text != "" {
			b.WriteString(text + "\n")
		}
	}
	for _, r := range c.Refused {
		fmt.Fprintf(&b, "%s can't carry %d: %s\n", r.Format, r.Count, terminal.Line(r.Why))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ConvertRows writes rows in other formats, without the run that they come from. Each row becomes a record again, on
// the same side of the split, with an example named FORMAT/FILE:ROW. It returns an error for a row that can't be read
// or turned into a record.
func ConvertRows(
	ctx context.Context, from FormatFolder, formats []Format, o rows.Options, dir string,
) (*Converted, error) {
	tmp, err := os.MkdirTemp("", "nat-go-convert-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	sides, err := from.log(ctx, tmp)
	if err != nil {
		return nil, err
	}
	c := &Converted{Dir: dir}
	defer tidy(dir)()
	return c, c.formats(ctx, Spec{
		Dir: dir, Log: tmp, Decisions: curate.Decided(sides), Formats: formats, Options: o, NoEmpty: true,
	})
}

// log builds a record log from the rows. It returns each row's side of the split.
func (f FormatFolder) log(ctx context.Context, dir string) (sides []curate.Decision, err error) {
	w, err := recordlog.Create(dir)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	b := recordlog.NewBuilder([]string{""})
	for _, file := range f.Files {
		side := curate.Train
		if file.Split == rows.Validation {
			side = curate.Validation
		}
		err := file.each(func(n int64, line []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			id := fmt.Sprintf("%s:%d", path.Join(f.Format.Name, file.Name), n+1)
			row, err := f.Format.Read(line)
			if err == nil {
				err = appendRow(w, b, id, row)
			}
			if err != nil {
				return fmt.Errorf("%s:%d: %w", file.Path, n+1, err)
			}
			sides = append(sides, side)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return sides, w.Commit(nil, true)
}

func appendRow(w *recordlog.Writer, b *recordlog.Builder, id string, row *rows.Row) error {
	record, err := recordOf(row)
	if err != nil {
		return err
	}
	ex := &ttc.Example{ID: id, Tools: row.Tools}
	b.Begin(&ttc.Group{Key: id, Examples: []*ttc.Example{ex}})
	if err := b.Record(0, record); err != nil {
		return err
	}
	return w.Append(b.Group())
}

// recordOf returns the record that a row was built from, without scores, policies and origin, which rows lack. It
// returns an error if the row doesn't contain enough of the record.
func recordOf(row *rows.Row) (builders.Record, error) {
	switch {
	case row.Label != nil:
		return nil, fmt.Errorf("row has a labelled answer without its counterpart: specify the run's folder")
	case row.Kind == builders.KindPreference:
		return &builders.Preference{
			Prompt: inline(row.Prompt), Chosen: inline(row.Chosen), Rejected: inline(row.Rejected), Reward: 1,
		}, nil
	case row.Kind != builders.KindDemonstration:
		return nil, fmt.Errorf("row holds only part of a %s: specify the run's folder", row.Kind)
	}
	d := &builders.Demonstration{Weight: 1, MaskReasoning: row.MaskReasoning}
	all := builders.Passage{Nodes: slices.Concat(
		recordlog.MessagesOf(row.Prompt, "user"), recordlog.MessagesOf(row.Completion, "assistant"))}
	d.Messages = inline(all)
	switch {
	case row.Trained != nil:
		d.Train, d.Trained = builders.TrainFlagged, row.Trained
	case !row.WholePrompt && slices.ContainsFunc(row.Prompt.Nodes, isAssistant):
		d.Train = builders.TrainFlagged
		for i, n := range all.Nodes {
			d.Trained = append(d.Trained, i >= len(row.Prompt.Nodes) && isAssistant(n))
		}
	}
	return d, nil
}

func isAssistant(n ttc.Node) bool { return n.Message.Role == "assistant" }

// inline returns a passage as the content of a record, with the text or messages included.
func inline(p builders.Passage) builders.Content {
	if p.IsText() {
		return builders.Content{Text: p.Text}
	}
	c := builders.Content{Ref: builders.Ref{Part: builders.InlineMessages}, Messages: []chat.Message{}}
	for i := range p.Nodes {
		c.Messages = append(c.Messages, p.Nodes[i].Message)
	}
	return c
}
