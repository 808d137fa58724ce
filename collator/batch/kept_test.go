package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keptSpool is a spool of one-row batches whose encodings have the given numbers of bytes.
func keptSpool(t *testing.T, sizes []uint32) *Spool {
	t.Helper()
	s, err := NewSpool(t.TempDir(), Order{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for i, n := range sizes {
		k := Encoded{entry: entry{
			Width: [maxSides]uint32{8}, Sequences: [maxSides]uint32{1}, Bytes: n, Ordinal: int64(i), Group: -1,
		}}
		if err := s.Add(SFT, Train, &k); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestDivide checks that a spool is divided into exactly as many parts as asked for, each saved in order, parts that
// get no batch included; and which batches each gets.
func TestDivide(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []uint32
		want  [][]uint32 // sizes of the encodings in each part
	}{
		{"no rows", nil, [][]uint32{nil, nil, nil}},
		{"one part", []uint32{5, 6}, [][]uint32{{5, 6}}},
		{"equal parts", []uint32{5, 5, 5, 5, 5, 5}, [][]uint32{{5, 5}, {5, 5}, {5, 5}}},
		{"the first row is the larger half", []uint32{9, 1}, [][]uint32{{9}, nil, {1}}},
		{"the last row is the larger half", []uint32{1, 9}, [][]uint32{{1, 9}, nil, nil}},
		{"more parts than rows", []uint32{4, 4}, [][]uint32{{4}, nil, {4}, nil, nil}},
		{"rows of no bytes", []uint32{0, 0}, [][]uint32{{0, 0}, nil}},
		{"a row of no bytes after all others", []uint32{1, 0}, [][]uint32{{1}, nil, nil, {0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := keptSpool(t, c.sizes)
			spec := Spec{Budget: 8}
			var parts []*bytes.Buffer
			err := s.Divide(spec, len(c.want), func(i int, write func(io.Writer) error) error {
				if i != len(parts) {
					return fmt.Errorf("part %d is saved after %d others", i, len(parts))
				}
				parts = append(parts, &bytes.Buffer{})
				return write(parts[i])
			})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]uint32
			for _, p := range parts {
				var sizes []uint32
				for k, err := range spec.KeptIn(p) {
					if err != nil {
						t.Fatal(err)
					}
					sizes = append(sizes, k.Bytes)
				}
				got = append(got, sizes)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDivideFails checks that a part that can't be saved, before or after it is written, ends the division with its
// error.
func TestDivideFails(t *testing.T) {
	for _, written := range []bool{false, true} {
		for fails := range 3 {
			t.Run(fmt.Sprintf("part %d, written %t", fails, written), func(t *testing.T) {
				saved := 0
				s := keptSpool(t, []uint32{4, 4})
				err := s.Divide(Spec{Budget: 8}, 3, func(i int, write func(io.Writer) error) error {
					if i < fails || written {
						if err := write(io.Discard); err != nil {
							return err
						}
					}
					if i == fails {
						return errFull
					}
					saved++
					return nil
				})
				if !errors.Is(err, errFull) || saved != fails {
					t.Errorf("%v after %d parts", err, saved)
				}
			})
		}
	}
}

// TestDivideUnplanned checks that the writer of a part returns the error of a spool that can't be read, so that the
// caller doesn't keep an incomplete part.
func TestDivideUnplanned(t *testing.T) {
	s := keptSpool(t, []uint32{4, 4})
	s.entries.Close()
	var failures []error
	err := s.Divide(Spec{Budget: 8}, 3, func(_ int, write func(io.Writer) error) error {
		err := write(io.Discard)
		failures = append(failures, err)
		return err
	})
	if err == nil || len(failures) != 1 || !errors.Is(err, failures[0]) {
		t.Errorf("%v after writing parts: %v", err, failures)
	}
}

// TestDivideStops checks that a part that can't be written ends the division.
func TestDivideStops(t *testing.T) {
	err := keptSpool(t, []uint32{4, 4}).Divide(Spec{Budget: 8}, 3, func(_ int, write func(io.Writer) error) error {
		return write(fullDisk{})
	})
	if !errors.Is(err, errFull) {
		t.Error(err)
	}
}

var errFull = errors.New("the disk is full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestTruncatedSpool checks that a row whose end is missing is an error.
func TestTruncatedSpool(t *testing.T) {
	s, err := NewSpool(t.TempDir(), Order{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.file.Append(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	_, err = readRows([]entry{{Bytes: 11}}, s.read)
	if !errors.Is(err, errSpool) || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("got %v", err)
	}
}

// TestForgedPart checks that a part which ends within a batch, names an unknown channel or claims an impossible number
// of rows is an error.
func TestForgedPart(t *testing.T) {
	part := &bytes.Buffer{}
	err := keptSpool(t, []uint32{4, 4}).Divide(Spec{Budget: 16}, 1, func(_ int, write func(io.Writer) error) error {
		return write(part)
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := func(b []byte) (n int, err error) {
		for _, err := range (Spec{}).KeptIn(bytes.NewReader(b)) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	whole := part.Bytes()
	if n, err := rows(whole); n != 2 || err != nil {
		t.Fatalf("%d rows: %v", n, err)
	}
	for n := 1; n < len(whole); n++ {
		if _, err := rows(whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
	const count, channel = 8, 8 + 4 // offsets of the number of rows and of the first row's channel
	for name, at := range map[string]int{"too many rows": count, "unknown channel": channel} {
		bad := bytes.Clone(whole)
		bad[at] = 0xff
		if _, err := rows(bad); !errors.Is(err, errSpool) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
