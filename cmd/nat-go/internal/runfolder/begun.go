package runfolder

import (
	"encoding/json"
	"fmt"

	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/source"
)

// Begun records how a run began. To resume the run, nat-go reads it, config.yml and the record log.
type Begun struct {
	NatGo   string          `json:"nat_go"`
	RunID   string          `json:"run_id"` // recorded because the folder may have been renamed
	Log     int             `json:"record_log_version"`
	Request json.RawMessage `json:"request"` // the command-line arguments
	Inputs  []source.Input  `json:"inputs"`
	Decided *Decided        `json:"decided"`
}

// ReadBegun reads the record of how the run began. The error wraps fs.ErrNotExist if it is missing.
func (f Folder) ReadBegun() (*Begun, error) {
	text, err := read(f.Begun())
	if err != nil {
		return nil, err
	}
	b := new(Begun)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Begun(), err)
	}
	return b, nil
}

// WriteBegun records how the run begins.
func (f Folder) WriteBegun(b *Begun) error {
	return durable.WriteJSON(f.Begun(), b)
}
