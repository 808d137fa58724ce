package finetune

import (
	"encoding/json"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// listedDrops is how many drops of one stage and reason dropped.jsonl lists; the rest are counted in one line.
const listedDrops = 10_000

// unitPair is the unit of the one line a turn that counts the pairs a strategy did not take. They are listed, but they are
// no drops: their candidates have an account of their own.
const unitPair = "pair"

// dropFile writes dropped.jsonl and keeps the books of what it is told.
type dropFile struct {
	book *ledger.Book
	file *durable.File
	enc  *json.Encoder
	seen map[dropKind]int64
	rest []*ledger.Drop // one for each kind with more than listedDrops, in order of appearance
	more map[dropKind]*ledger.Drop
	err  error
}

type dropKind struct {
	stage  ledger.Stage
	reason ledger.Reason
	unit   string
	format string
}

func kindOf(d *ledger.Drop) dropKind { return dropKind{d.Stage, d.Reason, d.Unit, d.Format} }

func newDropFile(path string, book *ledger.Book) (*dropFile, error) {
	f, err := durable.Create(path)
	if err != nil {
		return nil, err
	}
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	return &dropFile{book: book, file: f, enc: enc, seen: map[dropKind]int64{}, more: map[dropKind]*ledger.Drop{}}, nil
}

// add books a drop and lists it. A write error comes with commit.
func (w *dropFile) add(d ledger.Drop) {
	if d.Unit != unitPair {
		w.book.Drop(d)
	}
	k := kindOf(&d)
	w.seen[k]++
	if w.seen[k] <= listedDrops {
		if err := w.enc.Encode(&d); err != nil && w.err == nil {
			w.err = err
		}
		return
	}
	m := w.more[k]
	if m == nil {
		m = &ledger.Drop{Stage: d.Stage, Reason: d.Reason, Unit: d.Unit, Format: d.Format, Index: -1, Detail: "further ones, not listed"}
		w.more[k] = m
		w.rest = append(w.rest, m)
	}
	m.Count += d.N()
}

func (w *dropFile) commit() error {
	for _, d := range w.rest {
		if err := w.enc.Encode(d); err != nil && w.err == nil {
			w.err = err
		}
	}
	if w.err != nil {
		w.file.Abort()
		return w.err
	}
	return w.file.Commit()
}
