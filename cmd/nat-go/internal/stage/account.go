package stage

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Account collects the reports of a run's stages: counts, drops, warnings, progress, and the hashes of files. The
// embedded ledger.Book holds the counts. Drop and List also write dropped.jsonl, the list of drops.
type Account struct {
	Env
	*ledger.Book
	RunID    string
	Warnings []string
	Files    []runfolder.File            // files whose hashes were computed while they were written
	Counters map[string]map[string]int64 // the builders' own counters, by builder
	Near     map[string]*sdpo.NearMisses // near misses of each builder
	Unmet    map[string]int64            // number of examples or records dropped by dataset.where, by clause
	First    map[ledger.Stage]string     // the first drop of each stage that has details, for display

	file *durable.File
	enc  *json.Encoder
	seen map[DropKind]int64
	more map[DropKind]*ledger.Drop // last lines of the list, for kinds with more than MaxListed drops
	err  error
}

// NewAccount returns an empty account for a run.
func NewAccount(env Env, runID string) *Account {
	return &Account{
		Env: env, Book: ledger.NewBook(), RunID: runID, Counters: map[string]map[string]int64{},
		Near: map[string]*sdpo.NearMisses{}, Unmet: map[string]int64{}, First: map[ledger.Stage]string{},
		seen: map[DropKind]int64{}, more: map[DropKind]*ledger.Drop{},
	}
}

// Info logs a step of the run, with details given as alternating names and values.
func (a *Account) Info(what string, fields ...any) {
	a.Log.Info().Str("run", a.RunID).Fields(fields).Msg(what)
}

// Warn adds a warning to the summary.
func (a *Account) Warn(format string, values ...any) {
	a.Warnings = append(a.Warnings, a.Hide(fmt.Sprintf(format, values...)))
}

// Tell reports the run's progress to the caller.
func (a *Account) Tell(p Progress) {
	if a.Progress != nil {
		a.Progress(p)
	}
}

// Know records files whose hashes were computed while they were written. It can be used as a dataset.Ready.
func (a *Account) Know(_ []runfolder.Written, files []runfolder.File) error {
	a.Files = append(a.Files, files...)
	return nil
}

// Of returns the account of a stage in a unit.
func (a *Account) Of(s ledger.Stage, unit string) *ledger.Account { return a.Account(s, unit) }

// MaxListed is the maximum number of drops of each kind in a list of drops. One additional line per kind gives the
// number of drops that aren't listed.
const MaxListed = 10_000

// DropKind identifies a kind of drop. The list contains at most MaxListed drops of each kind.
type DropKind struct {
	stage  ledger.Stage
	reason ledger.Reason
	unit   string
	format string
}

// KindOf returns the kind of a drop.
func KindOf(d *ledger.Drop) DropKind { return DropKind{d.Stage, d.Reason, d.Unit, d.Format} }

// NewList returns an account that is used only to write a list of drops, which the run's account reads with Replay.
func (a *Account) NewList(path string) (*Account, error) {
	list := NewAccount(a.Env, a.RunID)
	return list, list.Open(path)
}

// Open creates the list of drops.
func (a *Account) Open(path string) (err error) {
	if a.file, err = durable.Create(path); err != nil {
		return err
	}
	a.enc = json.NewEncoder(a.file)
	a.enc.SetEscapeHTML(false)
	return nil
}

// AddAccounts adds the In and Out counts of accounts to a book, but not the drops, which are added one at a time.
func AddAccounts(b *ledger.Book, accounts []ledger.Account) {
	for _, a := range accounts {
		b.In(a.Stage, a.Unit, a.In)
		b.Out(a.Stage, a.Unit, a.Out)
	}
}

// Count adds to one of a builder's counters.
func (a *Account) Count(builder, name string, n int64) {
	counters := a.Counters[builder]
	if counters == nil {
		counters = map[string]int64{}
		a.Counters[builder] = counters
	}
	if _, known := counters[name]; !known { // all groups use the same few names, so Hide is rarely called
		name = a.Hide(name) // a name from a plugin may contain a secret
	}
	counters[name] += n
}

// Drop records a drop and lists it.
func (a *Account) Drop(d ledger.Drop) {
	if d.Reason == where.NotMet && d.Unit != UnitTurn { // turns are dropped by a builder's where, not dataset.where
		a.Unmet[d.Detail] += d.N()
	}
	d.Reason = ledger.Reason(a.Hide(string(d.Reason)))
	if d.Unit != UnitPair {
		a.Book.Drop(d)
	}
	a.List(d)
}

// List adds a drop to dropped.jsonl, but not to the accounts. Close returns write errors.
func (a *Account) List(d ledger.Drop) {
	if d.Reason == sdpo.NearMiss {
		if a.Near[d.Builder] == nil {
			a.Near[d.Builder] = &sdpo.NearMisses{}
		}
		a.Near[d.Builder].Add(&d)
	}
	k := KindOf(&d)
	a.seen[k]++
	if a.First[d.Stage] == "" && d.Detail != "" && d.Unit != UnitPair {
		a.First[d.Stage] = fmt.Sprintf(" (the first: %s, %s)", d.Reason, a.Hide(d.Detail))
	}
	if a.seen[k] <= MaxListed {
		a.encode(&d)
		return
	}
	a.countUnlisted(&d)
}

// unlistedDetail is the detail text of a line that counts unlisted drops.
const unlistedDetail = "additional drops, not listed"

// countUnlisted counts a drop whose kind has reached its limit in the list.
func (a *Account) countUnlisted(d *ledger.Drop) {
	k := KindOf(d)
	m := a.more[k]
	if m == nil {
		m = &ledger.Drop{
			Stage: d.Stage, Reason: d.Reason, Unit: d.Unit, Format: d.Format, Index: -1, Detail: unlistedDetail,
		}
		a.more[k] = m
	}
	m.Count += d.N()
}

// Replay copies the drops from another list to this one and records them, except for drops from the stages Gate and
// Curate, which are recorded from the entries and the decisions.
func (a *Account) Replay(path string) error {
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
			a.Book.Drop(d)
		}
		if d.Detail == unlistedDetail {
			a.countUnlisted(&d)
		} else {
			a.List(d)
		}
	}
	return nil
}

func (a *Account) encode(d *ledger.Drop) {
	d.Detail = a.Hide(d.Detail)
	if err := a.enc.Encode(d); err != nil && a.err == nil {
		a.err = err
	}
}

// Close completes the list of drops.
func (a *Account) Close() error {
	for _, d := range slices.SortedFunc(maps.Values(a.more), func(x, y *ledger.Drop) int {
		return cmp.Or(cmp.Compare(x.Stage, y.Stage), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Unit, y.Unit),
			cmp.Compare(x.Format, y.Format))
	}) {
		a.encode(d)
	}
	if a.err != nil {
		a.Abort()
		return a.err
	}
	return a.file.Commit()
}

// Abort discards the list. It does nothing after Close.
func (a *Account) Abort() {
	if a.file != nil {
		a.file.Abort()
	}
}
