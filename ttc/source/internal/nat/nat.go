package nat

import (
	"context"
	"errors"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Source reads NAT's evaluation output.
type Source struct {
	source.Walk
	cfg    Config
	parser parser
}

var _ source.Source = (*Source)(nil)

// Open opens the files of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*Source, error) {
	s := &Source{cfg: cfg}
	err := s.InitFiles(cfg.Path, FileName, "a workflow_output.json", cfg.MaxEmpty, opt, s.begin, s.entry)
	if err != nil {
		return nil, err
	}
	s.parser.init(&s.cfg, opt.Raw, &s.Tally)
	return source.Replay(ctx, s, &s.Tally, opt)
}

func (s *Source) begin(f *source.File) *json.Reader {
	r := json.NewReader(f, json.ArrayOf, json.Limits{Size: s.cfg.MaxExample, Objects: s.cfg.MaxObjects})
	r.Index()
	return r
}

// entry reads the next entry in the file. It returns nil for an entry that was dropped.
func (s *Source) entry(context.Context) (*ttc.Example, error) {
	raw, offset, err := s.Reader.Next()
	if err == io.EOF {
		return nil, err
	}
	var tooLarge *json.SizeError
	if err != nil && !errors.As(err, &tooLarge) {
		return nil, s.readError(err)
	}
	row := s.At.Row
	s.At.Row++
	s.At.Offset = s.Reader.Offset()
	s.Tally.S.Entries++
	place := ledger.Drop{
		Unit: "example", Run: s.At.Run, Example: source.RowName(row), Index: -1, File: s.Path(), Offset: offset,
	}
	if tooLarge != nil {
		s.Chain(uint64(offset))
		place.Reason, place.Detail = source.ExampleTooLarge, tooLarge.Error()
		s.Tally.Drop(place)
		return nil, nil
	}
	hash := xxh3.Hash128(raw)
	s.Chain(hash.Lo)
	ex := &ttc.Example{Run: s.At.Run, Row: row, File: s.Path(), Offset: offset, Fidelity: ttc.TextOnly}
	if ok, err := s.parser.example(raw, s.Reader.Cursor(), hash, ex, &s.IDs, place); !ok || err != nil {
		return nil, err
	}
	return ex, nil
}

func (s *Source) readError(err error) error {
	err = source.ReadError(s.Path(), err, s.At.Row)
	var se *source.Error
	if top := s.Reader.Top(); errors.As(err, &se) && s.At.Row == 0 && top != json.Array {
		if top != json.Invalid {
			se.What = "expected an array of data-set entries, found " + top.String()
		}
		se.Help = "This is not what `nat eval` writes as workflow_output.json; JSON lines are read with --source candidates or --source traces"
	}
	return err
}
