package finetune

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// listedDrops is the maximum number of drops of each kind in dropped.jsonl. One more line per kind counts the rest.
const listedDrops = 10_000

// unitPair is the unit for drops of pairs that a builder didn't build. Such drops are listed, but not counted, because
// the candidates or examples in the pairs are already counted.
const unitPair = "pair"

// books holds a run's ledger.Book and the builders' own counters, and writes the list of drops to dropped.jsonl.
type books struct {
	*ledger.Book
	counters map[string]map[string]int64 // by builder

	file *durable.File
	enc  *json.Encoder
	seen map[dropKind]int64
	more map[dropKind]*ledger.Drop   // last lines of dropped.jsonl, for kinds with more than listedDrops drops
	near map[string]*sdpo.NearMisses // by builder
	err  error

	unmet map[string]int64 // number of examples or records dropped by dataset.where, by clause

	first map[ledger.Stage]string // the first drop of each stage that has details, for display

	hide func(string) string // removes secrets from listed text
}

// dropKind identifies a kind of drop. The list contains at most listedDrops drops of each kind.
type dropKind struct {
	stage  ledger.Stage
	reason ledger.Reason
	unit   string
	format string
}

func kindOf(d *ledger.Drop) dropKind { return dropKind{d.Stage, d.Reason, d.Unit, d.Format} }

func newBooks() *books {
	return &books{
		Book: ledger.NewBook(), counters: map[string]map[string]int64{}, seen: map[dropKind]int64{},
		more: map[dropKind]*ledger.Drop{}, near: map[string]*sdpo.NearMisses{}, first: map[ledger.Stage]string{},
		unmet: map[string]int64{}, hide: secret.Shape,
	}
}

// newListing returns books that are used only to write a list of drops, which other books read with replay.
func newListing(path string, hide func(string) string) (*books, error) {
	b := newBooks()
	b.hide = hide
	return b, b.open(path)
}

// open starts the list of drops.
func (b *books) open(path string) (err error) {
	if b.file, err = durable.Create(path); err != nil {
		return err
	}
	b.enc = json.NewEncoder(b.file)
	b.enc.SetEscapeHTML(false)
	return nil
}

// AddAccounts adds the In and Out counts of accounts to a book. Their drops are added one at a time.
func AddAccounts(b *ledger.Book, accounts []ledger.Account) {
	for _, a := range accounts {
		b.In(a.Stage, a.Unit, a.In)
		b.Out(a.Stage, a.Unit, a.Out)
	}
}

func (b *books) count(builder, name string, n int64) {
	counters := b.counters[builder]
	if counters == nil {
		counters = map[string]int64{}
		b.counters[builder] = counters
	}
	if _, known := counters[name]; !known { // all groups use the same few names, so hide is rarely called
		name = b.hide(name) // a name from a plugin may contain a secret
	}
	counters[name] += n
}

// drop records a drop and lists it.
func (b *books) drop(d ledger.Drop) {
	if d.Reason == where.NotMet && d.Unit != unitTurn { // turns are dropped by a builder's where, not dataset.where
		b.unmet[d.Detail] += d.N()
	}
	d.Reason = ledger.Reason(b.hide(string(d.Reason)))
	if d.Unit != unitPair {
		b.Drop(d)
	}
	b.list(d)
}

// list adds a drop to dropped.jsonl, but not to the accounts. The close method returns write errors.
func (b *books) list(d ledger.Drop) {
	if d.Reason == sdpo.NearMiss {
		if b.near[d.Builder] == nil {
			b.near[d.Builder] = &sdpo.NearMisses{}
		}
		b.near[d.Builder].Add(&d)
	}
	k := kindOf(&d)
	b.seen[k]++
	if b.first[d.Stage] == "" && d.Detail != "" && d.Unit != unitPair {
		b.first[d.Stage] = fmt.Sprintf(" (the first: %s, %s)", d.Reason, b.hide(d.Detail))
	}
	if b.seen[k] <= listedDrops {
		b.encode(&d)
		return
	}
	b.countUnlisted(&d)
}

// unlistedDetail is the detail text of a line that counts unlisted drops.
const unlistedDetail = "additional drops, not listed"

// countUnlisted counts a drop whose kind has reached its limit in the list.
func (b *books) countUnlisted(d *ledger.Drop) {
	k := kindOf(d)
	m := b.more[k]
	if m == nil {
		m = &ledger.Drop{
			Stage: d.Stage, Reason: d.Reason, Unit: d.Unit, Format: d.Format, Index: -1, Detail: unlistedDetail,
		}
		b.more[k] = m
	}
	m.Count += d.N()
}

// replay copies the drops from another list to this one and records them, except for drops from the stages Gate and
// Curate, which are recorded from the entries and the decisions.
func (b *books) replay(path string) error {
	in, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	for dec := json.NewDecoder(bufio.NewReader(in)); dec.More(); {
		var d ledger.Drop
		if err := dec.Decode(&d); err != nil {
			return shards.Damaged(path, err.Error())
		}
		if d.Stage != ledger.Gate && d.Stage != ledger.Curate {
			b.Drop(d)
		}
		if d.Detail == unlistedDetail {
			b.countUnlisted(&d)
		} else {
			b.list(d)
		}
	}
	return nil
}

func (b *books) encode(d *ledger.Drop) {
	d.Detail = b.hide(d.Detail)
	if err := b.enc.Encode(d); err != nil && b.err == nil {
		b.err = err
	}
}

// close completes the list of drops.
func (b *books) close() error {
	for _, d := range slices.SortedFunc(maps.Values(b.more), func(x, y *ledger.Drop) int {
		return cmp.Or(cmp.Compare(x.Stage, y.Stage), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Unit, y.Unit),
			cmp.Compare(x.Format, y.Format))
	}) {
		b.encode(d)
	}
	if b.err != nil {
		b.abort()
		return b.err
	}
	return b.file.Commit()
}

// abort discards the list. It does nothing after close.
func (b *books) abort() {
	if b.file != nil {
		b.file.Abort()
	}
}
