package batch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/fanout"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/tensors"
)

// Layout selects how a batch's sequences are laid out.
type Layout uint8

// The layouts.
const (
	Padded Layout = iota // one sequence per row, padded on the right
	Packed               // all sequences end to end in one row; sft only
	// Like Padded, but with the names used by the reference composite trainer; for all channels except sft. See
	// composer.go.
	Composer
)

// Form holds the settings other than the layout that depend on the trainer.
type Form struct {
	IgnoreIndex int64 `json:"ignore_index,omitempty"` // label of tokens that are not trained on; 0 means Ignored
	// The other fields apply to sdpo in the composer layout. EqualWidth makes the student as wide as the teacher,
	// padded where the teacher has the hint. SignedMask puts IgnoreIndex instead of 0 into the loss mask outside the
	// loss. ResponseMask adds a mask of the model's own turns.
	EqualWidth   bool `json:"equal_width,omitempty"`
	SignedMask   bool `json:"signed_mask,omitempty"`
	ResponseMask bool `json:"response_mask,omitempty"`
}

// forChannel returns the settings of the form that apply to a channel in a layout.
func (f Form) forChannel(c *Channel, layout Layout) (own Form) {
	if f.ignored() != Ignored && c != RL {
		own.IgnoreIndex = f.IgnoreIndex
	}
	if c == SDPO && layout == Composer {
		own.EqualWidth, own.SignedMask, own.ResponseMask = f.EqualWidth, f.SignedMask, true
	}
	return own
}

func (f Form) ignored() int64 {
	if f.IgnoreIndex == 0 {
		return Ignored
	}
	return f.IgnoreIndex
}

var layoutNames = [...]string{Padded: "padded", Packed: "packed", Composer: "composer"}

func (l Layout) String() string { return layoutNames[l] }

// forChannel returns the layout in which a channel's batches are written.
func (l Layout) forChannel(c *Channel) Layout {
	if l == Packed && c != SFT || l == Composer && c == SFT {
		return Padded
	}
	return l
}

// Spec specifies how batches are written.
type Spec struct {
	Dir         string // the folder for index.jsonl and <channel>/<split>/; created if missing
	Budget      int    // tokens per batch, including padding
	Layout      Layout // layout of the channels that support it; the others use Padded
	Form        Form
	ByExample   bool    // each row of the file that Assembled.Write writes is an example
	PadID       int64   // value of input_ids past the end of a row
	VocabSize   int64   // all ids are smaller than this
	Tokenizer   string  // fingerprint
	Template    string  // fingerprint
	Reference   string  // fingerprint of the source of the rows' reference log-probs; empty without reference log-probs
	Terminators []int32 // ids that end a turn
	Workers     int     // batches assembled concurrently; 0 means 1
	// Finish completes a row before it is assembled. It is called concurrently.
	Finish func(*Row) error
}

// Count counts the rows written for a channel and split.
type Count struct {
	Batches int64 `json:"batches"`
	Rows    int64 `json:"rows"`
	Tokens  int64 `json:"tokens"` // number of tokens, without padding
	Active  int64 `json:"n_active"`
	// Distinct is the sum of the batches' tokens, not counting repeated prefixes.
	Distinct int64 `json:"distinct,omitempty"`
}

// Plus returns the sum of two counts.
func (c Count) Plus(d Count) Count {
	return Count{
		c.Batches + d.Batches, c.Rows + d.Rows, c.Tokens + d.Tokens, c.Active + d.Active, c.Distinct + d.Distinct,
	}
}

// Write writes the spool's rows as batches, in order, followed by the index. It replaces batches left by an earlier,
// unfinished write, and returns the counts by "channel/split".
func (s *Spool) Write(ctx context.Context, spec Spec) (map[string]Count, error) {
	if err := s.file.Flush(); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(spec.Dir, IndexName)); err != nil {
		return nil, err
	}
	for _, c := range channels {
		if err := os.RemoveAll(filepath.Join(spec.Dir, c.Name)); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
		return nil, err
	}
	index, err := durable.Create(filepath.Join(spec.Dir, IndexName))
	if err != nil {
		return nil, err
	}
	defer index.Abort()
	counts := map[string]Count{}
	err = spec.writePlanned(ctx, s.plan(&spec), s.read, func(line []byte, key string, c Count) error {
		counts[key] = counts[key].Plus(c)
		_, err := index.Write(line)
		return err
	})
	if err != nil {
		return nil, err
	}
	return counts, index.Commit()
}

// writePlanned assembles batches in parallel from their rows. It calls put for each batch, in order, with the batch's
// line and the amounts to add to the counts for "channel/split".
func (spec *Spec) writePlanned(
	ctx context.Context, batches iter.Seq2[*planned, error], read fetch,
	put func(line []byte, key string, c Count) error,
) error {
	write := func(p *planned) (finished, error) {
		all, err := readRows(p.rows, read)
		if err != nil {
			return finished{}, err
		}
		return spec.write(p, all)
	}
	workers := max(1, spec.Workers) + 1 // one more, because one usually waits for the disk
	keys := map[string]bool{}
	err := fanout.Ordered(ctx, workers, 2*workers, batches, func() fanout.Worker[*planned, finished] {
		return fanout.Worker[*planned, finished]{Work: write}
	}, func(p *planned, f finished) error {
		keys[p.key()] = true
		return put(f.line, p.key(), f.count)
	})
	for key := range keys {
		if err == nil {
			err = durable.SyncDir(filepath.Join(spec.Dir, filepath.FromSlash(key)))
		}
	}
	return err
}

// finished is a batch that has been written, with its line and its contribution to the counts.
type finished struct {
	line  []byte
	count Count
}

// count returns the counts for the line's batch.
func (l *Line) count() Count { return Count{1, int64(l.Rows), l.Tokens, l.NActive, l.Distinct} }

// write writes a batch's file.
func (spec *Spec) write(p *planned, rows []*Row) (finished, error) {
	if err := spec.finish(p, rows); err != nil {
		return finished{}, err
	}
	l := spec.line(p, rows)
	l.File = fmt.Sprintf("%s/%05d.safetensors", p.key(), p.number)
	all := assemble(p.channel, rows, p.layout, l.Form, spec.PadID)
	meta := map[string]string{"channel": l.Channel, "layout": l.Layout}
	path := filepath.Join(spec.Dir, filepath.FromSlash(l.File))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return finished{}, err
	}
	file, err := durable.Create(path)
	if err != nil {
		return finished{}, err
	}
	defer file.Abort()
	sum := sha256.New()
	err = tensors.Write(io.MultiWriter(sum, file), all, meta)
	if err == nil {
		err = file.Prepare()
	}
	if err == nil {
		err = file.CommitUnsynced() // writePlanned syncs the folder
	}
	reuse(all)
	if err != nil {
		return finished{}, err
	}
	l.Proof.SHA256 = hex.EncodeToString(sum.Sum(nil))
	text, err := marshal(l)
	return finished{text, l.count()}, err
}

// finish completes a batch's rows, and returns an error for rows that the batch's layout can't represent.
func (spec *Spec) finish(p *planned, rows []*Row) error {
	for _, r := range rows {
		if spec.Finish != nil {
			if err := spec.Finish(r); err != nil {
				return err
			}
		}
		if p.layout == Composer && p.channel == SDPO {
			if err := endTogether(r, spec.Form.forChannel(p.channel, p.layout)); err != nil {
				return err
			}
		}
	}
	return nil
}

// line returns a batch's line, without its file.
func (spec *Spec) line(p *planned, rows []*Row) *Line {
	l := &Line{
		Channel:   p.channel.Name,
		Split:     p.split.String(),
		Layout:    p.layout.String(),
		PadID:     spec.PadID,
		VocabSize: spec.VocabSize,
		Tokenizer: spec.Tokenizer,
		Template:  spec.Template,
		Sites:     sitesOf(rows),
		Proof:     BatchProof{Terminators: spec.Terminators},
	}
	l.Form = spec.Form.forChannel(p.channel, p.layout)
	if rows[0].Meta.Ref != nil {
		l.Reference = spec.Reference
	}
	l.RowInfo = lists.Map(rows, func(r *Row) Meta { return r.Meta })
	l.tally(rows)
	return l
}

// tally sets the totals and lists of a line from its rows.
func (l *Line) tally(rows []*Row) {
	rollouts, examples := recordsOf(rows)
	l.Rows, l.Distinct, l.Rollouts, l.Examples = len(rows), distinct(rows), rollouts.list, examples.list
	for _, r := range rows {
		for i := range r.Sides {
			l.Tokens += int64(len(r.Sides[i].IDs))
		}
		l.NActive += int64(r.active())
	}
}

// distinct returns the number of tokens in rows of one sequence each, with each shared prefix counted once. For other
// rows, it returns 0.
func distinct(rows []*Row) (n int64) {
	if len(rows[0].Sides) != 1 {
		return 0
	}
	ids := lists.Map(rows, func(r *Row) []int32 { return r.Sides[0].IDs })
	for i, p := range prefix.Places(ids) {
		n += int64(len(ids[i]) - p.Common)
	}
	return n
}

func marshal(l *Line) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(l)
	return b.Bytes(), err
}
