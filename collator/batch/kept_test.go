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

// partFile is a part of a divided spool that notes how often it was closed.
type partFile struct {
	bytes.Buffer
	closed int
	err    error // of Close
}

func (p *partFile) Close() error {
	p.closed++
	return p.err
}

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

// TestDivide checks that a spool is divided into exactly as many parts as asked for, each opened in order and closed
// once, parts that get no batch included; and which batches each gets.
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
			var parts []*partFile
			err := s.Divide(spec, len(c.want), func(i int) (io.WriteCloser, error) {
				if i != len(parts) || i > 0 && parts[i-1].closed != 1 {
					return nil, fmt.Errorf("part %d is opened after %d others", i, len(parts))
				}
				parts = append(parts, &partFile{})
				return parts[i], nil
			})
			if err != nil {
				t.Fatal(err)
			}
			var got [][]uint32
			for i, p := range parts {
				if p.closed != 1 {
					t.Errorf("part %d was closed %d times", i, p.closed)
				}
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

// TestDivideFails checks that a part that can't be closed or opened ends the division with its error, and that each
// part that was opened is closed once.
func TestDivideFails(t *testing.T) {
	full := errors.New("the disk is full")
	for _, c := range []struct {
		name           string
		closing        int // the part whose Close fails
		opening, opens int // the part that can't be opened, and how many are
	}{
		{"closing the first", 0, -1, 1},
		{"closing the last", 2, -1, 3},
		{"opening the first", -1, 0, 0},
		{"opening the second", -1, 1, 1},
		{"opening one without rows", -1, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var parts []*partFile
			err := keptSpool(t, []uint32{4, 4}).Divide(Spec{Budget: 8}, 3, func(i int) (io.WriteCloser, error) {
				if i == c.opening {
					return nil, full
				}
				parts = append(parts, &partFile{})
				if i == c.closing {
					parts[i].err = full
				}
				return parts[i], nil
			})
			if !errors.Is(err, full) || len(parts) != c.opens {
				t.Errorf("%v after %d parts", err, len(parts))
			}
			for i, p := range parts {
				if p.closed != 1 {
					t.Errorf("part %d was closed %d times", i, p.closed)
				}
			}
		})
	}
}

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
	part := &partFile{}
	err := keptSpool(t, []uint32{4, 4}).Divide(Spec{Budget: 16}, 1, func(int) (io.WriteCloser, error) { return part, nil })
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
