package nat

import (
	"context"
	"errors"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Source reads NAT's evaluation output.
type Source struct {
	cfg   Config
	files []string
	tally source.Tally
	done  []source.Input

	file   *source.File
	reader *json.Reader
	at     source.Cursor
	ids    source.Names
	parser parser
	err    error
}

var _ source.Source = (*Source)(nil)

// Open opens the files of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*Source, error) {
	files, err := source.Expand(cfg.Path, FileName)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no input: name a workflow_output.json with --from, or set sources.*.path")
	}
	s := &Source{cfg: cfg, files: files}
	s.tally.Tell = opt.Drop
	s.parser.init(&s.cfg, &s.tally)
	if opt.Resume != nil {
		if err := source.Replay(ctx, s, &s.tally, opt); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Capabilities of a file: it can be read again. Trials of a task (collection runs, and repetitions within one) may stand
// anywhere.
func (s *Source) Capabilities() source.Capabilities { return source.Capabilities{Replayable: true} }

// Files are the input files, one a collection run.
func (s *Source) Files() []string { return s.files }

// Inputs identifies the files opened so far.
func (s *Source) Inputs() []source.Input {
	if s.file == nil {
		return s.done
	}
	return append(s.done[:len(s.done):len(s.done)], s.file.ID)
}

// Stats are the counts so far.
func (s *Source) Stats() *source.Stats { return &s.tally.S }

// Close closes the file that is open.
func (s *Source) Close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// Next returns the next example; see source.Source.
func (s *Source) Next(ctx context.Context) (*ttc.Example, source.Cursor, error) {
	if s.err != nil {
		return nil, s.at, s.err
	}
	ex, err := s.next(ctx)
	if err != nil {
		s.err = err
		return nil, s.at, err
	}
	s.tally.S.Examples++
	return ex, s.at, nil
}

func (s *Source) next(ctx context.Context) (*ttc.Example, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.file == nil {
			if len(s.done) == len(s.files) {
				return nil, io.EOF
			}
			if err := s.openFile(); err != nil {
				return nil, err
			}
		}
		raw, offset, err := s.reader.Next()
		if err == io.EOF {
			s.file.ID.Sum = s.at.Sum
			s.done = append(s.done, s.file.ID)
			if err := s.Close(); err != nil {
				return nil, err
			}
			continue
		}
		var tooLarge *json.SizeError
		if err != nil && !errors.As(err, &tooLarge) {
			return nil, s.readError(err)
		}
		row := s.at.Row
		s.at.Row++
		s.at.Offset = s.reader.Offset()
		s.tally.S.Entries++
		place := ledger.Drop{Unit: "example", Run: s.at.Run, Example: source.RowName(row), Index: -1, File: s.files[s.at.Run], Offset: offset}
		if tooLarge != nil {
			s.at.Sum = source.Chain(s.at.Sum, uint64(offset))
			place.Reason, place.Detail = ledger.ExampleTooLarge, tooLarge.Error()
			s.tally.Drop(place)
			continue
		}
		hash := xxh3.Hash128(raw)
		s.at.Sum = source.Chain(s.at.Sum, hash.Lo)
		ex := &ttc.Example{Run: s.at.Run, Row: row, File: s.files[s.at.Run], Offset: offset, Fidelity: ttc.TextOnly}
		if ok, err := s.parser.example(raw, hash, ex, &s.ids, place); ok || err != nil {
			return ex, err
		}
	}
}

func (s *Source) openFile() error {
	run := len(s.done)
	f, err := source.Open(s.files[run])
	if err != nil {
		return err
	}
	s.file = f
	s.reader = json.NewReader(f, json.ArrayOf, json.Limits{Size: s.cfg.MaxExample})
	s.ids.Reset()
	s.at = source.Cursor{Run: run}
	return nil
}

func (s *Source) readError(err error) error {
	err = source.ReadError(s.files[s.at.Run], err, s.at.Row)
	var se *source.Error
	if top := s.reader.Top(); errors.As(err, &se) && s.at.Row == 0 && top != json.Array {
		if top != json.Invalid {
			se.What = "expected an array of data-set entries, found " + top.String()
		}
		se.Help = "This is not what `nat eval` writes as workflow_output.json; JSON lines are read with --source candidates or --source traces"
	}
	return err
}
