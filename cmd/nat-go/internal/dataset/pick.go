package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Query selects records from a run. Empty fields don't restrict the selection.
type Query struct {
	Record  *uint64 // ordinal in the log; if set, the other conditions don't apply
	Example string
	Turn    string
	Builder string
	Split   string        // "train" or "validation"
	Dropped bool          // select records that curation dropped instead of the kept ones
	Reason  ledger.Reason // if Dropped is set, select only drops for this reason
	Skip    int64         // skip this many matches
	Limit   int64         // return at most this many; 0 means all
}

// Picked is a record that matches a query.
type Picked struct {
	Ordinal  uint64
	Decision curate.Decision
	*builders.Resolved
}

// Pick calls f for the run's records that match the query, in order. The arguments of f are valid until it returns.
func (p *Place) Pick(q Query, f func(Picked) error) error {
	d, err := p.Decisions()
	if err != nil {
		return err
	}
	if q.Record != nil {
		q.Limit = 1
	}
	var found, given int64
	for g, err := range recordlog.GroupsAhead(p.Log()) {
		if err != nil {
			return err
		}
		for i := range g.Records {
			x := Picked{g.First + uint64(i), d.At(g.First + uint64(i)), &g.Records[i]}
			if !q.asksFor(&x) {
				continue
			}
			if found++; found <= q.Skip {
				continue
			}
			if err := f(x); err != nil {
				return err
			}
			if given++; given == q.Limit {
				return nil
			}
		}
	}
	return nil
}

func (q *Query) asksFor(p *Picked) bool {
	if q.Record != nil {
		return p.Ordinal == *q.Record
	}
	reason, dropped := p.Decision.Reason()
	switch {
	case dropped != q.Dropped,
		q.Reason != "" && reason != q.Reason,
		q.Example != "" && p.Origin.Example != q.Example,
		q.Turn != "" && p.Record.Header().Turn != q.Turn,
		q.Builder != "" && p.Origin.Builder != q.Builder,
		q.Split == rows.Train.String() && !p.Decision.Trains(),
		q.Split == rows.Validation.String() && !p.Decision.Validates():
		return false
	}
	return true
}

// EachDrop calls f for the drops in a dropped.jsonl that match the query's reason, example, turn and builder. It
// applies the query's Skip and Limit.
func EachDrop(path string, q Query, f func(ledger.Drop) error) error {
	if !runfolder.Has(path) {
		return nil
	}
	var found, given int64
	return eachObject(path, func(d ledger.Drop) error {
		if q.Reason != "" && d.Reason != q.Reason || q.Example != "" && d.Example != q.Example ||
			q.Turn != "" && d.Turn != q.Turn || q.Builder != "" && d.Builder != q.Builder {
			return nil
		}
		if found++; found <= q.Skip {
			return nil
		}
		if err := f(d); err != nil {
			return err
		}
		if given++; given == q.Limit {
			return errEnough
		}
		return nil
	})
}

// PickRows calls f for at most limit rows of a file (0 means all), starting at row number skip (from 0).
func PickRows(format rows.Format, file RowFile, skip, limit int64, f func(n int64, r *rows.Row) error) error {
	return eachLineFrom(file.Path, file.Limits, skip, func(n int64, line []byte) error {
		row, err := format.Read(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file.Path, n+1, err)
		}
		if err := f(n, row); err != nil {
			return err
		}
		if limit > 0 && n+1 == skip+limit {
			return errEnough
		}
		return nil
	})
}

// originOf returns the origin of a row from rows.jsonl, or nil if rows.jsonl doesn't list the row.
func originOf(f FormatFolder, file string, row int64) (found *Origin, err error) {
	if f.Origins == "" {
		return nil, nil
	}
	err = ReadOrigins(f.Origins, func(o Origin) error {
		if o.File == file && o.Row == row {
			found = &o
			return errEnough
		}
		return nil
	})
	return found, err
}

// RowText returns the text of a file's row, numbered from 0. A table's row is returned as JSON.
func RowText(file RowFile, row int64) (text string, err error) {
	found := false
	err = eachLineFrom(file.Path, file.Limits, row, func(_ int64, line []byte) error {
		text, found = string(line), true
		return errEnough
	})
	if err == nil && !found {
		err = fmt.Errorf("no row %[2]d in %[1]s", file.Path, row+1)
	}
	return text, err
}

// OriginsOf returns the origins of at most maxOrigins of the rows written for the record with this hash.
func OriginsOf(f FormatFolder, record string) (found []Origin, err error) {
	if f.Origins == "" {
		return nil, nil
	}
	has := []byte(`"record":"` + record + `"`)
	err = eachLine(f.Origins, DefaultLimits, func(n int64, line []byte) error {
		if !bytes.Contains(line, has) {
			return nil
		}
		var o Origin
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("%s:%d: %w", f.Origins, n+1, err)
		}
		if found = append(found, o); len(found) == maxOrigins {
			return errEnough
		}
		return nil
	})
	return found, err
}

// maxOrigins is the maximum number of rows listed per record.
const maxOrigins = 64
