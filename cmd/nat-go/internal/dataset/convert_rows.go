package dataset

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

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
	return c, c.texts(ctx, Spec{
		Dir: dir, Log: tmp, Decisions: curate.Decided(sides), Formats: formats, Options: o, NoEmpty: true,
	})
}

// log builds a record log from the rows, and returns each row's side of the split.
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
	all := builders.Passage{Nodes: slices.Concat(messages("user", row.Prompt), messages("assistant", row.Completion))}
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

// messages returns a passage's messages, or one message with the given role and the passage's text.
func messages(role string, p builders.Passage) []ttc.Node {
	if p.IsText() {
		return ttc.Chain([]chat.Message{{Role: role, Form: chat.Text, Text: p.Text}}, ttc.Assumed).Nodes
	}
	return p.Nodes
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
