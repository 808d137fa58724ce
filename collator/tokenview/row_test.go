package tokenview

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
)

// TestBatchOfDivergencesIsMissing checks that if the batch of a row can't be read, the row isn't shown without its
// divergences.
func TestBatchOfDivergencesIsMissing(t *testing.T) {
	row := Row{Meta: batch.Meta{Sites: make([]batch.RowSite, 1)}}
	if err := row.measured(t.TempDir(), &batch.Line{File: "batch.safetensors"}, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that names the missing file", err)
	}
}
