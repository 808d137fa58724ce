package view

import (
	"math"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
)

// A record's share of trained tokens is stored in two bytes.
const (
	shareParts   = 65534
	unknownShare = 65535
)

// share returns the share of a record's tokens that are trained, from 0 to 1, or NaN if the record doesn't have a token
// row.
func (e *entry) share() float64 {
	if e.Share == unknownShare {
		return math.NaN()
	}
	return float64(e.Share) / shareParts
}

// version is the size and modification time of an index of token batches, or zero if there is no index.
type version struct{ Bytes, Time int64 }

// batchesOf returns the version of the index of a run's token batches.
func batchesOf(folder runfolder.Folder) (v version, err error) {
	if !dataset.HasBatches(folder) {
		return v, nil
	}
	info, err := os.Stat(filepath.Join(folder.Batches(), batch.IndexName))
	if err != nil {
		return v, err
	}
	return version{info.Size(), info.ModTime().UnixNano()}, nil
}

// readShares sets the shares of trained tokens of records that have token rows, based on the owners of tokens listed in
// the index of a run's batches.
func (t *table) readShares(folder runfolder.Folder, batches version) error {
	for i := range t.Entries {
		t.Entries[i].Share = unknownShare
	}
	if t.Batches = batches; batches == (version{}) {
		return nil
	}
	trained, all := make([]uint32, len(t.Entries)), make([]uint32, len(t.Entries))
	err := batch.EachLine(filepath.Join(folder.Batches(), batch.IndexName), func(l *batch.Line) error {
		for i := range l.RowInfo {
			m := &l.RowInfo[i]
			if m.Ordinal < 0 || m.Ordinal >= int64(len(all)) {
				continue // the row was made from another log
			}
			sides := m.Proof
			if l.Channel == batch.SDPO.Name && len(sides) > 1 {
				sides = sides[:1] // only the student's side, because teachers aren't trained
			}
			for k := range sides {
				from := 0
				for _, o := range sides[k].Owners {
					n := uint32(max(0, o.End-from))
					if all[m.Ordinal] += n; o.Why == batch.InLoss {
						trained[m.Ordinal] += n
					}
					from = o.End
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, n := range all {
		if n > 0 {
			t.Entries[i].Share = uint16(uint64(shareParts) * uint64(trained[i]) / uint64(n))
		}
	}
	return nil
}
