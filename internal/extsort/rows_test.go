package extsort

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestManyRows checks that when rows are many enough to be sorted on two cores, the result is the same as on one,
// however their first bytes are distributed.
func TestManyRows(t *testing.T) {
	const width = 16
	for name, first := range map[string]func(r *rand.Rand) byte{
		"even":   func(r *rand.Rand) byte { return byte(r.Uint32()) },
		"two":    func(r *rand.Rand) byte { return byte(r.IntN(2)) * 255 },
		"skewed": func(r *rand.Rand) byte { return byte(7 * max(0, r.IntN(10)-8)) },
		"one":    func(*rand.Rand) byte { return 9 },
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			rows := make([]byte, 2*minParallelBytes)
			var want [][]byte
			for i := 0; i < len(rows); i += width {
				row := rows[i : i+width]
				row[0] = first(r)
				binary.BigEndian.PutUint64(row[4:], r.Uint64N(1<<40))
				want = append(want, bytes.Clone(row))
			}
			slices.SortFunc(want, bytes.Compare)
			sortRows(rows, make([]byte, len(rows)), width, 0)
			if !bytes.Equal(rows, bytes.Join(want, nil)) {
				t.Errorf("%s: not in order", name)
			}
		})
	}
}
