package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Cursor is a run's position in its inputs, as recorded by a commit of the log.
type Cursor struct {
	Source source.Cursor  `json:"source"`
	Inputs []source.Input `json:"inputs,omitempty"` // inputs read to the end
	Failed []int          `json:"failed,omitempty"` // collection runs that were skipped because they failed
	Seen   source.Stats   `json:"seen"`             // counts for the collection runs read to the end
	Groups int64          `json:"groups,omitempty"` // number of groups done; set if the run's unit isn't the example
}

// Stage builds records, from inputs with Run or from the logs of finished runs with Join.
type Stage struct {
	*stage.Account
	Folder   runfolder.Folder
	Rules    curate.Rules // rules for the index; zero if this process doesn't decide on records
	Gates    curate.Gates
	Where    where.Filter[*where.Subject] // filter from dataset.where
	Marks    *marks.File                  // a user's marks on records; nil means none
	Compat   compat.Mode
	History  *compat.History // NAT's report of the run
	Builders []*Builder

	Inputs     stage.Inputs
	GroupBytes int64        // maximum size of a group
	KeepGoing  bool         // whether to use the other collection runs if one fails
	Spill      *group.Spill // stores the examples; nil means that records are built from them

	// Spilled adds the examples that other processes stored; nil means that there are none. If it is set, the groups'
	// positions are kept for a merge.
	Spilled func(context.Context, *group.Index) error
	Logged  func(*recordlog.Group, recordlog.Commit) // called for each group that is already in the log; may be nil
}

// Built holds the results of the stage, except for the record log.
type Built struct {
	Index *curate.Index // the caller closes it
	Marks *marks.Matches
	At    Cursor // position in the inputs up to which groups are in the log
}

// recording writes groups to the record log, and adds them to the index and the account.
type recording struct {
	Stage
	*Built
	log     *recordlog.Writer
	frame   *recordlog.Builder           // frame for the group being logged
	where   where.Filter[*where.Subject] // selects the records that are used
	order   *shards.Order                // the positions of the groups in the log; nil unless Stage.Spilled is set
	scratch []curate.Entry
}

// record calls work with a recording, completes the accounts of the source, and returns the result.
func (s Stage) record(work func(*recording) error) (*Built, error) {
	built := &Built{Index: curate.NewIndex(s.Rules, string(s.Folder)), Marks: s.Marks.Matches()}
	b := &recording{Stage: s, Built: built}
	_, b.where = s.Where.Split(where.ExampleFields)
	if err := work(b); err != nil {
		b.Index.Close()
		return nil, err
	}
	for _, a := range b.At.Seen.Accounts() {
		b.In(a.Stage, a.Unit, a.In)
		if a.Unit != stage.UnitExample { // used examples are counted when their groups are logged
			b.Out(a.Stage, a.Unit, a.Out)
		}
	}
	return b.Built, nil
}

// building streams the examples through the builders.
type building struct {
	*recording
	unit     builders.Unit
	total    int64 // total bytes of all inputs; 0 means unknown
	unmet    int64 // examples dropped by dataset.where in the collection runs read so far
	expected bool  // whether the index has an estimate of the number of records
}

// openLog starts the log, or continues the log of an interrupted run and calls take for its groups. b.log remains nil
// if all groups are already in the log.
func (b *recording) openLog(ctx context.Context) (err error) {
	dir := b.Folder.Records()
	c, err := recordlog.ReadCommit(dir)
	switch {
	case err == nil:
		return b.continueLog(ctx, c)
	case !errors.Is(err, fs.ErrNotExist):
		return exit.With(exit.Environment, err)
	}
	b.log, err = recordlog.Create(dir)
	return exit.Cant("start the record log", err)
}

func (b *recording) continueLog(ctx context.Context, c recordlog.Commit) (err error) {
	dir := b.Folder.Records()
	if len(c.Cursor) > 0 {
		if err := json.Unmarshal(c.Cursor, &b.At); err != nil {
			return exit.Environmentf("damaged commit in the record log: %w", err)
		}
	}
	if !c.Done {
		if b.log, err = recordlog.Open(dir); err != nil {
			return exit.Environmentf("cannot continue the record log: %w", err)
		}
	}
	for g, err := range recordlog.GroupsAhead(dir) {
		if err = cmp.Or(exit.Default(exit.Environment, err), context.Cause(ctx)); err == nil {
			if b.Logged != nil {
				b.Logged(g, c)
			}
			err = b.take(g)
		}
		if err != nil {
			if b.log != nil {
				b.log.Close()
			}
			return err
		}
		b.Tell(stage.Progress{
			Step: "read finished work", Done: int64(b.Index.Len()), Total: int64(c.Records), Unit: stage.UnitRecord,
		})
	}
	return nil
}

// take adds the records of a logged group to curation's index, and everything else in the group to the account.
func (b *recording) take(g *recordlog.Group) (err error) {
	if b.scratch, err = b.Index.AddGroup(b.scratch[:0], g, b.Gates); err != nil {
		return err
	}
	b.book(g)
	b.bookEntries(g, b.scratch)
	return nil
}

// book adds a group's drops, accounts and counters to the run's account, and calls recordNames for each builder.
func (b *recording) book(g *recordlog.Group) {
	for _, d := range g.Drops {
		b.Drop(d)
	}
	stage.AddAccounts(b.Book, g.Accounts)
	for _, c := range g.Counts {
		b.Count(c.Builder, c.Name, c.N)
	}
	for _, x := range b.Builders {
		x.recordNames(g)
	}
}

// bookEntries adds the gate's drops to the account, looks up the marks on the records, and adds a group to NAT's
// history. The gate's drops are listed later, together with curation's, in log order.
func (b *recording) bookEntries(g *recordlog.Group, all []curate.Entry) {
	b.History.Add(g)
	var passed int64
	for i := range all {
		e := &all[i]
		b.Built.Marks.Add(e.Content, e.Ordinal)
		if reason, dropped := e.Drop.Reason(); dropped {
			b.Book.Drop(ledger.Drop{Stage: ledger.Gate, Reason: reason, Unit: stage.UnitRecord})
		} else {
			passed++
		}
	}
	b.In(ledger.Gate, stage.UnitRecord, int64(len(all)))
	b.Out(ledger.Gate, stage.UnitRecord, passed)
}

// append builds a group's frame from the source's drops and the builders' results, and adds it to the log, the index
// and the account.
func (b *recording) append(g *ttc.Group, drops []ledger.Drop, results [][]*result) error {
	f := b.frame
	f.Begin(g)
	for _, d := range drops {
		f.Drop(d)
	}
	f.Account(ledger.Source, stage.UnitExample, 0, int64(len(g.Examples)))
	keep := &keeping{Filter: b.where}
	if len(keep.Clauses) > 0 && results != nil {
		keep.subject.InGroup(g)
	}
	for i, parts := range results {
		first := 0
		for _, res := range parts {
			b.Builders[i].log(f, i, first, res, keep)
			first += len(res.Group.Examples)
		}
	}
	if err := b.log.Append(f.Group()); err != nil {
		return logError("write the record log", err)
	}
	if err := b.take(f.Group()); err != nil {
		return err
	}
	for _, parts := range results {
		for _, res := range parts {
			res.Release()
		}
	}
	return nil
}

func (b *recording) commit(done bool) error {
	at, err := json.Marshal(b.At)
	if err != nil {
		return err
	}
	if err = b.order.Sync(); err == nil {
		err = b.log.Commit(at, done)
	}
	return exit.Cant("commit the record log", err)
}

// logError wraps an error from the record log. An error without an exit code gets Failed if the log is full, and
// Environment otherwise, because a retry may succeed.
func logError(what string, err error) error {
	code := exit.Environment
	if errors.Is(err, recordlog.ErrFull) {
		code = exit.Failed
	}
	return exit.Default(code, fmt.Errorf("cannot %s: %w", what, err))
}
