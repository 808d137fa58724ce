package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Stage is a step of a run that passes on or drops each item that enters it.
type Stage string

// The stages of a run, in order.
const (
	Source  Stage = "source"  // bytes -> examples, steps -> candidates
	Build   Stage = "build"   // candidates, sites, rollouts -> records
	Gate    Stage = "gate"    // records -> records fit for training
	Curate  Stage = "curate"  // records -> chosen records (dedupe, contradictions, sampling)
	Write   Stage = "write"   // records -> rows of one format
	Collate Stage = "collate" // records -> token rows
	Teacher Stage = "teacher" // error sites -> error sites for which a teacher can give a hint
)

var stages = []Stage{Source, Build, Gate, Curate, Write, Collate, Teacher}

// Reason is a drop reason: a registered code, or "plugin/code" for one defined by a third party.
type Reason string

// Drop is one item dropped from the data set, with its location.
type Drop struct {
	Stage  Stage  `json:"stage"`
	Reason Reason `json:"reason"`
	// the kind of item dropped, such as example, step, candidate, call, record, row, group
	Unit    string `json:"unit"`
	Run     int    `json:"run"`               // collection run, from 0
	Example string `json:"example,omitempty"` // example id
	Turn    string `json:"turn,omitempty"`    // turn id within the example
	Index   int    `json:"index"`             // index within the turn, or -1
	Builder string `json:"builder,omitempty"` // name in the YAML
	Format  string `json:"format,omitempty"`  // row format; set only by the stage write
	File    string `json:"file,omitempty"`    // input file, as the user named it
	Offset  int64  `json:"offset,omitempty"`  // byte offset in the uncompressed file
	Detail  string `json:"detail,omitempty"`  // details of the drop, for humans
	Count   int64  `json:"count,omitempty"`   // number of items that the drop covers; 0 means 1
}

// N returns the number of items that the drop covers.
func (d Drop) N() int64 {
	if d.Count == 0 {
		return 1
	}
	return d.Count
}

// Account is the balance of one stage in one unit: In == Out + sum(Dropped).
type Account struct {
	Stage   Stage            `json:"stage"`
	Unit    string           `json:"unit"`
	In      int64            `json:"in"`
	Out     int64            `json:"out"`
	Dropped map[Reason]int64 `json:"dropped,omitempty"`
}

// DroppedTotal returns the number of items dropped for any reason.
func (a *Account) DroppedTotal() (n int64) {
	for _, c := range a.Dropped {
		n += c
	}
	return n
}

// Book holds a run's accounts. It is not safe for concurrent use.
type Book struct {
	accounts map[accountKey]*Account
}

type accountKey struct {
	stage Stage
	unit  string
}

// NewBook returns an empty book.
func NewBook() *Book { return &Book{accounts: map[accountKey]*Account{}} }

// Account returns the account for a stage and unit, creating it if necessary.
func (b *Book) Account(s Stage, unit string) *Account {
	k := accountKey{s, unit}
	a := b.accounts[k]
	if a == nil {
		a = &Account{Stage: s, Unit: unit, Dropped: map[Reason]int64{}}
		b.accounts[k] = a
	}
	return a
}

// In counts n items entering a stage.
func (b *Book) In(s Stage, unit string, n int64) { b.Account(s, unit).In += n }

// Out counts n items that a stage passed on.
func (b *Book) Out(s Stage, unit string, n int64) { b.Account(s, unit).Out += n }

// Drop counts a drop in its stage and unit.
func (b *Book) Drop(d Drop) { b.Account(d.Stage, d.Unit).Dropped[d.Reason] += d.N() }

// Accounts lists the accounts in stage order, then by unit.
func (b *Book) Accounts() []Account {
	out := make([]Account, 0, len(b.accounts))
	for _, a := range b.accounts {
		out = append(out, *a)
	}
	place := func(s Stage) uint { return uint(slices.Index(stages, s)) } // unknown stages come last
	slices.SortFunc(out, func(a, b Account) int {
		return cmp.Or(cmp.Compare(place(a.Stage), place(b.Stage)), cmp.Compare(a.Unit, b.Unit))
	})
	return out
}

// DroppedByReason sums the drops of all stages and units by reason.
func (b *Book) DroppedByReason() map[Reason]int64 {
	out := map[Reason]int64{}
	for _, a := range b.accounts {
		for r, n := range a.Dropped {
			out[r] += n
		}
	}
	return out
}

// Check returns an error that names every account that doesn't balance.
func (b *Book) Check() error {
	var bad []string
	for _, a := range b.Accounts() {
		if d := a.DroppedTotal(); a.In != a.Out+d {
			bad = append(bad, fmt.Sprintf("%s: %d %s in, %d out, %d dropped (%+d unaccounted)",
				a.Stage, a.In, a.Unit, a.Out, d, a.In-a.Out-d))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("books don't balance: %s", strings.Join(bad, "; "))
}

// Quantity formats a count with its unit: "1 row", "3 rows", "2 batches".
func Quantity(n int64, unit string) string {
	if n != 1 {
		if strings.HasSuffix(unit, "ch") {
			unit += "e"
		}
		unit += "s"
	}
	return strconv.FormatInt(n, 10) + " " + unit
}
