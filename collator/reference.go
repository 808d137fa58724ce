package collator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Reference holds log-probs of preferences under a reference model, supplied by the user. A log-prob is valid only for
// the tokens for which it was computed, so it is looked up by a hash of the row's tokens and labels.
type Reference struct {
	Fingerprint string // identifies model, tokenizer, template and length limit
	LogProbs    func(rowHash string) (chosen, rejected float64, ok bool)
}

// maxReferenceLine is the longest line of a file of log-probs, in bytes.
const maxReferenceLine = 4096

// ReadReference reads a reference model's log-probs from JSON lines {"row", "chosen", "rejected"}, where row is the
// RowHash of a pair's row, and chosen and rejected are sums of natural log-probs over its labels
// (examples/composite-trainer/reference_logps.py writes them). It keeps about 100 bytes per line in memory. Errors
// include the line number.
func ReadReference(r io.Reader, fingerprint string) (*Reference, error) {
	pairs := map[[sha256.Size]byte]batch.Ref{}
	n := 0
	for line, err := range lines.Read(r, maxReferenceLine) {
		if n++; err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var row [sha256.Size]byte
		var ref batch.Ref
		if err == nil {
			row, ref, err = referenceLine(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if was, ok := pairs[row]; ok && was != ref {
			return nil, fmt.Errorf("line %d: duplicate row %x: an earlier line has different log-probs", n, row)
		}
		pairs[row] = ref
	}
	if len(pairs) == 0 {
		return nil, errors.New("missing log-probs")
	}
	return &Reference{fingerprint, func(rowHash string) (float64, float64, bool) {
		var row [sha256.Size]byte
		if _, err := hex.Decode(row[:], []byte(rowHash)); err != nil {
			return 0, 0, false
		}
		ref, ok := pairs[row]
		return ref.Chosen, ref.Rejected, ok
	}}, nil
}

func referenceLine(line []byte) (row [sha256.Size]byte, ref batch.Ref, err error) {
	var in struct {
		Row              string
		Chosen, Rejected *float64
	}
	if err = json.Unmarshal(line, &in); err != nil {
		return row, ref, fmt.Errorf("expected an object with row, chosen and rejected: %w", err)
	}
	sum, err := hex.DecodeString(in.Row)
	if err != nil || copy(row[:], sum) != len(row) || len(sum) > len(row) {
		return row, ref, fmt.Errorf("invalid row %.80q: expected a SHA-256 in hex", in.Row)
	}
	if in.Chosen == nil || in.Rejected == nil {
		return row, ref, errors.New("missing log-prob: expected both chosen and rejected")
	}
	if *in.Chosen > 0 || *in.Rejected > 0 {
		return row, ref, errors.New("invalid log-prob: chosen or rejected is above 0")
	}
	return row, batch.Ref{Chosen: *in.Chosen, Rejected: *in.Rejected}, nil
}

// lookup returns the reference log-probs of a row.
func (f *Reference) lookup(r *batch.Row) *batch.Ref {
	chosen, rejected, ok := f.LogProbs(RowHash(r))
	if !ok || math.IsNaN(chosen+rejected) || math.IsInf(chosen+rejected, 0) {
		return nil
	}
	return &batch.Ref{Chosen: chosen, Rejected: rejected}
}

// RowHash identifies a row's tokens and labels. It returns a hex SHA-256 that covers, for each side, the ids as
// little-endian int32, -1, the start and end of each trained run, and -1.
func RowHash(r *batch.Row) string {
	var all batch.Side
	for i := range r.Sides {
		s := &r.Sides[i]
		all.IDs = append(append(all.IDs, s.IDs...), -1)
		for _, t := range s.Trained {
			all.IDs = append(all.IDs, int32(t.Start), int32(t.End))
		}
		all.IDs = append(all.IDs, -1)
	}
	all.Trained = []chat.Span{{Start: 0, End: len(all.IDs)}}
	return hashIDs(&all)
}
