package traces

import (
	"bytes"
	"context"
	"io"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Decoder reads traces in memory the way the source reads traces in a file. It is not safe for concurrent use.
type Decoder struct{ source Source }

// NewDecoder returns a decoder for cfg, after reading the tools file if cfg names one.
func NewDecoder(ctx context.Context, cfg Config) (*Decoder, error) {
	d := &Decoder{*newSource(cfg)}
	d.source.keepEqual = true
	var err error
	d.source.tools, err = readTools(ctx, cfg.ToolsFile)
	return d, err
}

// Decode reads a JSON list of traces; name serves as the file name of the examples. Unlike the source, it keeps
// identical entries, because a model may sample the same text twice. It calls drop for each omission.
func (d *Decoder) Decode(
	ctx context.Context, name string, list json.Raw, drop func(ledger.Drop),
) ([]*ttc.Example, *source.Stats, error) {
	s := &d.source
	s.Walk = source.Walk{}
	s.Init([]string{name}, s.cfg.MaxEmpty, source.Options{Drop: drop}, s.begin, s.entry)
	s.Tally.S.Names = map[string]int64{}
	s.IDs.Reset()
	limits := json.Limits{Size: s.cfg.MaxExample, Objects: s.cfg.MaxObjects}
	s.Reader = json.NewReader(bytes.NewReader(list), json.Auto, limits)
	var out []*ttc.Example
	for {
		ex, err := s.entry(ctx)
		if err == io.EOF {
			s.Tally.S.Examples = int64(len(out))
			return out, s.Stats(), nil
		}
		if err != nil {
			return nil, nil, err
		}
		if ex != nil {
			out = append(out, ex)
		}
	}
}
