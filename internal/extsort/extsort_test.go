package extsort

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

func sorted(t *testing.T, width int, memory int64, rows [][]byte) ([][]byte, bool) {
	t.Helper()
	dir := t.TempDir()
	s := New(width, memory, dir)
	defer s.Close()
	for _, r := range rows {
		if err := s.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	var got [][]byte
	for range 2 { // it can be read again
		got = got[:0]
		for row, err := range s.All() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, bytes.Clone(row))
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Fatalf("%d files left, %v", len(left), err)
	}
	return got, s.file != nil
}

func TestSortsLikeAComparisonSort(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		width := rapid.IntRange(1, 12).Draw(rt, "width")
		// Few distinct values: long common prefixes, equal rows.
		alphabet := rapid.SampledFrom([]byte{1, 2, 255}).Draw(rt, "alphabet")
		n := rapid.IntRange(0, 300).Draw(rt, "n")
		memory := rapid.SampledFrom([]int64{1, 64, 500, 4000, 0}).Draw(rt, "memory")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		rows := make([][]byte, n)
		for i := range rows {
			rows[i] = make([]byte, width)
			for j := range rows[i] {
				rows[i][j] = byte(r.IntN(int(alphabet) + 1))
			}
		}
		got, _ := sorted(t, width, memory, rows)
		want := slices.Clone(rows)
		slices.SortFunc(want, bytes.Compare)
		if !slices.EqualFunc(got, want, bytes.Equal) {
			rt.Fatalf("%d rows of %d in %d bytes: got %x want %x", n, width, memory, got, want)
		}
	})
}

func TestSpillsOnlyBeyondTheBudget(t *testing.T) {
	rows := make([][]byte, 1000)
	for i := range rows {
		rows[i] = binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
	}
	if _, spilled := sorted(t, 8, 16_000, rows); spilled {
		t.Error("went to disk though it fits")
	}
	if _, spilled := sorted(t, 8, 15_000, rows); !spilled {
		t.Error("kept more than the budget")
	}
}

func TestManyLevelsOfRuns(t *testing.T) {
	rows := make([][]byte, 3000)
	for i := range rows {
		rows[i] = binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
	}
	got, _ := sorted(t, 8, 160, rows) // 10 rows per run, two runs per merge
	if len(got) != len(rows) || !slices.IsSortedFunc(got, bytes.Compare) {
		t.Fatalf("%d rows, in order: %v", len(got), slices.IsSortedFunc(got, bytes.Compare))
	}
}

func TestMisuseIsAnError(t *testing.T) {
	s := New(4, 0, t.TempDir())
	if err := s.Add([]byte("abc")); err == nil {
		t.Error("accepted an entry of another width")
	}
	for range s.All() {
	}
	if err := s.Add([]byte("abcd")); err == nil {
		t.Error("accepted an entry after reading had begun")
	}
	s.Close()
	for _, err := range s.All() {
		if err == nil {
			t.Error("read from a closed sorter")
		}
	}
}

func TestNoRoomIsAnError(t *testing.T) {
	s := New(4, 8, t.TempDir()+"/missing")
	defer s.Close()
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		err = s.Add([]byte("abcd"))
	}
	if err == nil {
		t.Fatal("no error without a folder to spill to")
	}
	for _, e := range s.All() {
		if e == nil {
			t.Fatal("rows after a failed spill")
		}
	}
}

func BenchmarkSort(b *testing.B) {
	const n, width = 168_000, 40
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([]byte, n*width)
	for i := range rows {
		rows[i] = byte(r.Uint32())
	}
	b.SetBytes(n * width)
	for b.Loop() {
		s := New(width, 0, b.TempDir())
		for i := 0; i < len(rows); i += width {
			if err := s.Add(rows[i : i+width]); err != nil {
				b.Fatal(err)
			}
		}
		for _, err := range s.All() {
			if err != nil {
				b.Fatal(err)
			}
		}
		s.Close()
	}
}
