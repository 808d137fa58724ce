package emit

import (
	"context"
	"errors"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// full fails after a number of results.
type full struct{ left, n int }

var errFull = errors.New("full")

func (f *full) take() error {
	if f.n++; f.n > f.left {
		return errFull
	}
	return nil
}

func (f *full) Record(builders.Record) error { return f.take() }
func (f *full) Drop(ledger.Drop) error       { return f.take() }
func (f *full) Count(string, int64) error    { return f.take() }

// TestFirstError checks that an output keeps the first error, and passes nothing on after it.
func TestFirstError(t *testing.T) {
	to := &full{left: 2}
	out := &Output{To: to}
	out.Count("none", 0)
	out.Count("one", 1)
	if out.Drop(ledger.Drop{}); out.Over(t.Context()) {
		t.Fatalf("over after %d results: %v", to.n, out.Err)
	}
	out.Record(&builders.State{})
	out.Record(&builders.State{})
	out.Fail(context.Canceled)
	if !out.Over(t.Context()) || !errors.Is(out.Err, errFull) || to.n != 3 {
		t.Errorf("%v after %d results", out.Err, to.n)
	}
}
