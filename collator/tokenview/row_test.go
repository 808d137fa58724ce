package tokenview

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/nat-go/nat-go/collator/batch"
)

// TestBatchOfDivergencesIsMissing checks that a row of a batch whose file can't be read isn't shown without its
// divergences.
func TestBatchOfDivergencesIsMissing(t *testing.T) {
	row := Row{Meta: batch.Meta{Sites: make([]batch.RowSite, 1)}}
	if err := row.measured(t.TempDir(), &batch.Line{File: "batch.safetensors"}, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that names the missing file", err)
	}
}
