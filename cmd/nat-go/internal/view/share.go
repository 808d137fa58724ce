package view

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
)

// A record's share of trained tokens is stored in two bytes.
const (
	shareParts   = 65534
	unknownShare = 65535
)

// sharesMagic begins a file of shares in the cache.
const sharesMagic = "nat-go view shares 1\n"

// share returns the share of a record's tokens that are trained, from 0 to 1, or NaN if it has no row of tokens.
func (e *entry) share() float64 {
	if e.Share == unknownShare {
		return math.NaN()
	}
	return float64(e.Share) / shareParts
}

// readShares sets the shares of trained tokens from the index of a run's batches. Those of a large log are kept in the
// cache, like its table: reading the index of millions of rows takes a while.
func (t *table) readShares(folder runfolder.Folder, cache string) error {
	if !dataset.HasBatches(folder) {
		return nil
	}
	index := filepath.Join(folder.Batches(), batch.IndexName)
	info, err := os.Stat(index)
	if err != nil {
		return err
	}
	path := ""
	if c, err := recordlog.ReadCommit(folder.Records()); err == nil && c.Bytes >= cachedFrom && c.XXH3 != "" &&
		cache != "" {
		path = filepath.Join(cache, c.XXH3+".shares")
	}
	head := fmt.Sprintf("%s%d %d %d\n", sharesMagic, info.Size(), info.ModTime().UnixNano(), len(t.Entries))
	if path != "" && t.loadShares(path, head) {
		return nil
	}
	if err := t.countShares(index); err != nil {
		return err
	}
	if path != "" {
		text := []byte(head)
		for i := range t.Entries {
			text = binary.LittleEndian.AppendUint16(text, t.Entries[i].Share)
		}
		text = binary.LittleEndian.AppendUint64(text, xxh3.Hash(text))
		_ = durable.WriteFile(path, text) // if it can't be stored, it is read again next time
	}
	return nil
}

// loadShares reads the shares from the cache, and reports whether they were there and belong to this index.
func (t *table) loadShares(path, head string) bool {
	size := len(head) + 2*len(t.Entries) + 8
	text, err := durable.ReadFile(path, int64(size))
	if err != nil || len(text) != size || string(text[:len(head)]) != head ||
		binary.LittleEndian.Uint64(text[size-8:]) != xxh3.Hash(text[:size-8]) {
		return false
	}
	for i := range t.Entries {
		t.Entries[i].Share = binary.LittleEndian.Uint16(text[len(head)+2*i:])
	}
	return true
}

// countShares counts the tokens of each record, using the owners listed in the index.
func (t *table) countShares(index string) error {
	trained, all := make([]uint32, len(t.Entries)), make([]uint32, len(t.Entries))
	err := batch.EachLine(index, func(l *batch.Line) error {
		for i := range l.RowInfo {
			m := &l.RowInfo[i]
			if m.Ordinal < 0 || m.Ordinal >= int64(len(all)) {
				continue // of another log
			}
			sides := m.Proof
			if l.Channel == batch.SDPO.Name && len(sides) > 1 {
				sides = sides[:1] // the student's: a teacher learns nothing
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
