package candidates

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/published"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Source reads candidates from JSON lines.
type Source struct {
	source.Walk // each answer or unusable line is a step: Steps == Candidates + dropped steps
	cfg         Config
	lines       int64 // number of lines read from the file
	reader      *Reader

	// The first line of the next example, read ahead. raw is valid until the reader's next call.
	ahead struct {
		raw    json.Raw
		offset int64
		ok     bool
		of     belonging
		rawID  json.Raw
		id     string           // the example's id, if the entry is rewritten
		lines  []published.Line // the answers, if the entry is rewritten
	}

	scanned ttc.Example // reused for every example in a scan, which doesn't keep examples

	rewrite published.Rewriter // converts the entries of a published data set; nil if the entries are plain
}

var _ source.Source = (*Source)(nil)

// Open opens the files of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*Source, error) {
	rewrite := published.NewRewriter(cfg.Shape)
	if rewrite != nil {
		// Rewritten entries have fixed keys.
		cfg.TurnKey, cfg.PromptKey, cfg.OutputKey = published.TurnKey, published.PromptKey, published.OutputKey
		cfg.ScoreKey, cfg.ModelKey, cfg.MetadataKey = published.ScoreKey, published.ModelKey, published.MetadataKey
		cfg.IndexKey, cfg.AnswerKey, cfg.ContextKey, cfg.SystemKey = "", "", "", ""
	}
	s := &Source{cfg: cfg, reader: NewReader(cfg.Keys), rewrite: rewrite}
	if err := s.InitFiles(cfg.Path, fileName, "a file", cfg.MaxEmpty, opt, s.begin, s.entry); err != nil {
		return nil, err
	}
	s.Tally.S.Names = map[string]int64{}
	return source.Replay(ctx, s, &s.Tally, opt)
}

func (s *Source) begin(f *source.File) *json.Reader {
	f.Within(s.cfg.EntriesKey)
	s.lines = s.At.Lines
	return json.NewReader(f, json.Auto, json.Limits{Size: s.cfg.MaxLine})
}

// entry reads the next example: the consecutive lines with the same id or, without ids, the same prompt.
func (s *Source) entry(ctx context.Context) (*ttc.Example, error) {
	if !s.ahead.ok {
		if err := s.readAhead(); err != nil {
			return nil, err
		}
	}
	ex, err := s.example(ctx)
	if err == nil {
		s.Tally.S.Entries++
	}
	return ex, err
}

// readAhead reads the next line that is an object. It drops other lines.
func (s *Source) readAhead() error {
	s.ahead.ok = false
	for {
		raw, offset, err := s.Reader.Next()
		var tooLarge *json.SizeError
		switch {
		case err == io.EOF:
			return err
		case errors.As(err, &tooLarge):
		case err != nil:
			return source.ReadError(s.Path(), err, s.lines)
		}
		s.lines++
		reason, detail := source.BadStep, "the line is "+raw.Kind().String()+", not an object"
		if tooLarge == nil && raw.Kind() == json.Object {
			s.ahead.raw, s.ahead.offset = raw, offset
			if s.rewrite != nil {
				s.ahead.id, s.ahead.lines, err = s.rewrite(raw)
			}
			if err == nil {
				s.ahead.ok, s.ahead.rawID = true, s.id()
				s.ahead.of = s.belongs()
				return nil
			}
			reason, detail = reasonOf(err), err.Error()
		}
		if tooLarge != nil {
			reason, detail = source.ExampleTooLarge, tooLarge.Error()
		}
		s.Chain(uint64(offset))
		s.Tally.S.Steps++
		at := &ttc.Example{ID: source.RowName(s.lines - 1), Run: s.At.Run, File: s.Path(), Offset: offset}
		s.Tally.DropPart(at, "step", "", reason, detail)
		if err := s.Far(offset); err != nil {
			return err
		}
	}
}

func reasonOf(err error) ledger.Reason {
	if errors.Is(err, published.ErrNoScore) {
		return source.NoScore
	}
	return source.BadStep
}

// example reads the lines of one example, the first of which was read ahead.
func (s *Source) example(ctx context.Context) (*ttc.Example, error) {
	s.Begin(s.ahead.offset, s.lines-1)
	of := s.ahead.of
	ex := s.newExample()
	entry := xxh3.Uint128{Lo: uint64(s.ahead.offset), Hi: 1} // unique, so that the example doesn't count as a duplicate
	s.IDs.NameLine(ex, s.lines-1, entry, &s.Tally.S)
	s.reader.Begin()
	size := int64(0)
	for n := 0; ; n++ {
		if n%1000 == 999 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		size += int64(len(s.ahead.raw))
		if err := s.fits(of.id, n, size); err != nil {
			return nil, err
		}
		s.line(ex)
		if len(ex.Candidates) > s.cfg.MaxExample {
			return nil, s.tooMany(of.id, "answers")
		}
		if err := s.readAhead(); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		if next := s.ahead.of; next != of || next == (belonging{}) {
			break
		}
	}
	ex.Policy = s.reader.Policy()
	s.At.Row++
	s.At.Offset, s.At.Lines = s.Reader.Offset(), s.lines
	if s.ahead.ok {
		s.At.Offset, s.At.Lines = s.ahead.offset, s.lines-1
	}
	return ex, nil
}

// newExample returns the example that begins with the line read ahead.
func (s *Source) newExample() *ttc.Example {
	if s.Scans() {
		s.scanned = ttc.Example{ID: s.ahead.of.id, Run: s.At.Run, Row: s.At.Row}
		return &s.scanned
	}
	ex := &ttc.Example{
		ID: s.ahead.of.id, Run: s.At.Run, Row: s.At.Row, File: s.Path(), Offset: s.ahead.offset,
		Fidelity: ttc.TextOnly, RawID: append(json.Raw(nil), s.ahead.rawID...),
	}
	ex.Task = source.IDText(source.At(s.ahead.raw, s.cfg.TaskKey))
	if len(s.ahead.lines) > 0 {
		if v, ok := s.ahead.lines[0].Answer.Get(published.TaskKey); ok {
			ex.Task = source.IDText(v)
		}
	}
	return ex
}

// fits returns an error if adding the line read ahead would make an example exceed the limits. n is the example's
// number of lines without that line; size is its number of bytes with that line.
func (s *Source) fits(id string, n int, size int64) error {
	switch {
	case n == s.cfg.MaxExample:
		return s.tooMany(id, "lines")
	case size > max(s.cfg.MaxBytes, s.cfg.MaxLine):
		what := fmt.Sprintf("the lines with the id %q have more than %d bytes in total", id, s.cfg.MaxBytes)
		return s.exceeds(what, "max_example_bytes")
	}
	return nil
}

func (s *Source) tooMany(id, what string) error {
	what = fmt.Sprintf("more than %d %s have the id %q", s.cfg.MaxExample, what, id)
	return s.exceeds(what, "max_candidates_per_example")
}

// exceeds returns the error for an example that exceeds a limit.
func (s *Source) exceeds(what, setting string) error {
	help := "Raise sources.*." + setting + ", or give each example its own id (id_key)"
	return &source.Error{Path: s.Path(), Offset: s.ahead.offset, What: what, Help: help}
}

// belonging is the key that an example's lines share. The key is their id or, if they lack an id, a hash of their
// prompt. A line with neither forms its own example.
type belonging struct {
	id     string
	prompt xxh3.Uint128
}

// id returns the id of the line read ahead.
func (s *Source) id() json.Raw {
	switch {
	case s.rewrite == nil:
		return source.At(s.ahead.raw, s.cfg.IDKey)
	case s.ahead.id == "":
		return nil
	}
	return json.AppendString(nil, s.ahead.id)
}

// belongs returns the key of the example to which the line read ahead belongs.
func (s *Source) belongs() belonging {
	if name := source.IDText(s.ahead.rawID); name != "" || s.rewrite != nil {
		return belonging{id: name} // the answers of a rewritten entry without an id are compared only with each other
	}
	if prompt := source.At(s.ahead.raw, s.cfg.PromptKey); len(prompt.Bytes()) > 0 || prompt.Kind() == json.Array {
		hash := xxh3.Hash128(prompt)
		for _, key := range []string{s.cfg.ContextKey, s.cfg.SystemKey} {
			if beside := source.At(s.ahead.raw, key); beside != nil && key != "" {
				hash.Hi, hash.Lo = hash.Lo, hash.Hi^xxh3.Hash(beside)
			}
		}
		return belonging{prompt: hash}
	}
	return belonging{}
}

// line creates candidates from the line read ahead.
func (s *Source) line(ex *ttc.Example) {
	s.Chain(xxh3.Hash(s.ahead.raw))
	switch {
	case s.Scans():
		return
	case s.rewrite != nil:
		// Answers that don't name a turn are compared only with each other.
		for _, line := range s.ahead.lines {
			if line.Err == nil {
				s.object(line.Answer, source.RowName(s.lines-1), ex)
				continue
			}
			s.Tally.S.Steps++
			s.drop(reasonOf(line.Err), line.Err.Error(), "", ex)
		}
		return
	}
	var last otherFields
	lists := s.reader.answers(s.ahead.raw, func(f *fields, raw json.Raw) bool {
		s.add(f, raw, &last, "", ex)
		return len(ex.Candidates) <= s.cfg.MaxExample
	})
	if !lists {
		s.object(s.ahead.raw, "", ex)
	}
}

// object adds an object's answer; see add.
func (s *Source) object(raw json.Raw, turn string, ex *ttc.Example) {
	f := s.reader.fields(raw)
	s.add(&f, raw, &otherFields{}, turn, ex)
}

// add adds an answer as a candidate of the given turn, unless the answer names its own turn.
func (s *Source) add(f *fields, raw json.Raw, last *otherFields, turn string, ex *ttc.Example) {
	st := &s.Tally.S
	st.Steps++
	cand := ttc.Candidate{Step: s.cfg.StepName, Turn: turn, Offset: s.ahead.offset}
	if reason, detail := s.reader.fill(f, raw, last, &cand); reason != "" {
		s.drop(reason, detail, cand.Turn, ex)
		return
	}
	st.AddCandidate(ex, cand)
}

func (s *Source) drop(reason ledger.Reason, detail, turn string, ex *ttc.Example) {
	s.Tally.Drop(ledger.Drop{
		Unit: "step", Reason: reason, Detail: detail, Run: ex.Run, Example: ex.ID, Turn: turn, Index: -1,
		File: ex.File, Offset: s.ahead.offset,
	})
}
