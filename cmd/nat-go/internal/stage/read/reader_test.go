package read

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// listSource returns n examples of size bytes each, with a drop before every one, and then fails.
type listSource struct {
	n, given int
	size     int64
	drop     func(ledger.Drop)
	fail     error
	read     chan int // receives a value for every example
}

func (s *listSource) Next(context.Context) (*ttc.Example, source.Cursor, error) {
	s.drop(ledger.Drop{Detail: "before"})
	if s.given == s.n {
		return nil, source.Cursor{}, s.fail
	}
	s.given++
	s.read <- s.given
	return &ttc.Example{}, source.Cursor{Row: int64(s.given), Offset: int64(s.given) * s.size}, nil
}

func (s *listSource) Inputs() []source.Input { return []source.Input{{Size: int64(s.given)}} }

func (s *listSource) Stats() *source.Stats { return &source.Stats{Examples: int64(s.given)} }
func (s *listSource) Close() error         { return nil }

func readerOf(t *testing.T, s *listSource, resume *source.Cursor) *reader {
	t.Helper()
	p := &Inputs{paths: []string{"a", "b"}, Began: make([]source.Input, 2)}
	p.open = func(_ context.Context, path string, opt source.Options) (source.Source, error) {
		if path != "b" {
			t.Errorf("opened %q", path)
		}
		s.drop = opt.Drop
		return s, nil
	}
	return newReader(t.Context(), p, 1, resume)
}

func TestReaderKeepsTheOrder(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	failed := errors.New("the disk is gone")
	s := &listSource{n: 30, size: 1 << 20, fail: failed, read: make(chan int, 30)}
	rd := readerOf(t, s, nil)
	for i := range 30 {
		got, err := rd.Next(t.Context())
		if err != nil || got.At.Row != int64(i+1) || got.At.Run != 1 || got.Example.Run != 1 || len(got.Drops) != 1 ||
			got.Drops[0].Run != 1 {
			t.Fatalf("example %d: %+v, %v", i, got, err)
		}
	}
	if got, err := rd.Next(t.Context()); !errors.Is(err, failed) || len(got.Drops) != 1 {
		t.Errorf("at the end: %+v, %v", got, err)
	}
	rd.Close()
	if rd.Seen.Examples != 30 || rd.Input.Size != 30 {
		t.Errorf("%+v, %+v", rd.Seen, rd.Input)
	}
}

// TestReaderStaysWithinItsRoom checks that the reader reads ahead only up to its limit while a builder is still
// starting, and that it can be closed before the end of the input.
func TestReaderStaysWithinItsRoom(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := &listSource{n: 100, size: 1 << 20, fail: io.EOF, read: make(chan int, 100)}
	rd := readerOf(t, s, nil)
	most := 0
	for wait := time.Second; most < 100; wait = 50 * time.Millisecond {
		select {
		case most = <-s.read:
			continue
		case <-time.After(wait):
		}
		break
	}
	if room := aheadBytes >> 20; most != room+1 { // one more has been read and is waiting
		t.Errorf("read %d examples ahead of a room of %d", most, room)
	}
	rd.Close()
}

// TestReaderPassesLargeExamples checks that an example larger than the limit is still passed on, alone, even while the
// builders are starting and when a resumed run continues late in a file.
func TestReaderPassesLargeExamples(t *testing.T) {
	for _, resume := range []*source.Cursor{nil, {Row: 1, Offset: 10 << 30}} {
		for _, size := range []int64{1, steadyBytes, steadyBytes + 1, aheadBytes - 1, aheadBytes + 1, 10 * aheadBytes} {
			s := &listSource{n: 30, size: size, fail: io.EOF, read: make(chan int, 30)}
			if resume != nil {
				s.given = int(resume.Row)
			}
			rd := readerOf(t, s, resume)
			rd.most.Store(steadyBytes)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			var err error
			for err == nil {
				_, err = rd.Next(ctx)
			}
			if !errors.Is(err, io.EOF) {
				t.Fatalf("examples of %d bytes after %+v: %v", size, resume, err)
			}
			cancel()
			rd.Close()
		}
	}
}

// TestReaderReportsDropsOfAnInputThatCannotBeOpened checks that all drops of the source are reported.
func TestReaderReportsDropsOfAnInputThatCannotBeOpened(t *testing.T) {
	failed := errors.New("no such thing")
	p := &Inputs{paths: []string{"a"}, Began: make([]source.Input, 1)}
	p.open = func(_ context.Context, _ string, opt source.Options) (source.Source, error) {
		opt.Drop(ledger.Drop{Detail: "before"})
		return nil, failed
	}
	rd := newReader(t.Context(), p, 0, nil)
	defer rd.Close()
	if got, err := rd.Next(t.Context()); !errors.Is(err, failed) || len(got.Drops) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestReaderHoldsFewDrops checks that a file that yields only drops takes no more memory than the list of drops, and
// that all drops are counted.
func TestReaderHoldsFewDrops(t *testing.T) {
	p := &Inputs{paths: []string{"a"}, Began: make([]source.Input, 1)}
	const many = 3*stage.MaxListed + 7
	p.open = func(_ context.Context, _ string, opt source.Options) (source.Source, error) {
		for range many {
			opt.Drop(ledger.Drop{Reason: source.BadStep, Unit: "step"})
			opt.Drop(ledger.Drop{Reason: source.OtherStep, Unit: "step", Count: 2})
		}
		return &listSource{drop: opt.Drop, fail: io.EOF}, nil
	}
	rd := newReader(t.Context(), p, 0, nil)
	defer rd.Close()
	got, err := rd.Next(t.Context())
	n := map[ledger.Reason]int64{}
	for _, d := range got.Drops {
		n[d.Reason] += d.N()
	}
	if !errors.Is(err, io.EOF) || len(got.Drops) > 2*(stage.MaxListed+1)+1 || n[source.BadStep] != many ||
		n[source.OtherStep] != 2*many {
		t.Errorf("%d drops held, which count %v; %v", len(got.Drops), n, err)
	}
}
