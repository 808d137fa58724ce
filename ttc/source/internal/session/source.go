package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/redact"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// Reader reads sessions, ordered by id.
type Reader interface {
	// Next returns the next session; after the last it returns io.EOF.
	Next(ctx context.Context) (*calls.Session, error)
	Close() error
}

// Source builds examples from sessions.
type Source struct {
	reader Reader
	tally  *source.Tally
	input  source.Input
	redact *redact.Redactor // nil means no redaction
	prove  source.Prove     // if nil, nothing can be proven
	queue  []*calls.Example
	at     source.Cursor
	owned  map[xxh3.Uint128]struct{}
	ids    source.Names
	err    error
}

var _ source.Source = (*Source)(nil)

// newSource returns the source for a reader, which records its drops in tally.
func newSource(
	ctx context.Context, r Reader, settings Settings, tally *source.Tally, opt source.Options,
) (*Source, error) {
	s := &Source{prove: opt.Prove, reader: r, tally: tally, owned: map[xxh3.Uint128]struct{}{}}
	named, err := source.Matches(*settings.Path)
	if err == nil {
		s.input, err = source.Identify(ctx, named)
	}
	if err == nil {
		s.redact, err = redact.New(settings.Redact)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	s.ids.Reset()
	return source.Replay(ctx, s, tally, opt)
}

// Next returns the next example; see source.Source.
func (s *Source) Next(ctx context.Context) (*ttc.Example, source.Cursor, error) {
	if s.err != nil {
		return nil, s.at, s.err
	}
	for len(s.queue) == 0 {
		if s.err = ctx.Err(); s.err != nil {
			return nil, s.at, s.err
		}
		session, err := s.reader.Next(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				s.input.Sum = s.at.Sum
			}
			s.err = err
			return nil, s.at, err
		}
		if session.TooLarge() {
			detail := Limits{MaxContext: session.MaxGiven}.Excess(0, 0)
			s.tally.DropSession(SessionTooLong, detail, session.ID, s.input.Path, 0)
			continue
		}
		if session.Len() > 0 {
			s.tally.S.Sessions++
			s.queue = s.named(session.Examples(s.owns))
		}
	}
	ex := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.book(ex)
	return &ex.Example, s.at, nil
}

// named drops the examples that contain a call without a tool name, because no trainer accepts such calls.
func (s *Source) named(all []*calls.Example) []*calls.Example {
	return slices.DeleteFunc(all, func(ex *calls.Example) bool {
		for i := range ex.Graph.Nodes {
			for j, c := range ex.Graph.Nodes[i].Message.ToolCalls {
				if c.Name != "" {
					continue
				}
				where := fmt.Sprintf("message %d, call %d", i+1, j+1)
				s.tally.DropSession(NamelessCall, where, ID(ex.ID), s.input.Path, 0)
				return true
			}
		}
		return false
	})
}

// owns reports whether this occurrence of an answer is trained on. If the answer has an id, only its first occurrence
// is; otherwise, every occurrence is.
func (s *Source) owns(id string, answer xxh3.Uint128) bool {
	if id == "" {
		return true
	}
	h := answer.Bytes()
	key := xxh3.HashString128(string(h[:]) + id)
	if _, ok := s.owned[key]; ok {
		return false
	}
	s.owned[key] = struct{}{}
	return true
}

var reasons = map[calls.Reason]ledger.Reason{
	calls.Repeated: RepeatedCall, calls.Copied: CopiedCall,
	calls.Abandoned: AbandonedRetry, calls.Ambiguous: AmbiguousRetry,
}

// book checks, redacts and names an example before it is returned. It counts the example and its calls' outcomes.
func (s *Source) book(ex *calls.Example) {
	st := &s.tally.S
	if s.prove != nil {
		s.check(ex)
	}
	claimed := ttc.IDsLogProbs
	if s.redact != nil {
		before := ex.Fidelity
		if s.redact.Example(&ex.Example); ex.Fidelity < before { // redacted messages lose their token ids
			claimed = ex.Fidelity
		}
		st.Redacted = s.redact.Counts()
	}
	ex.ID, ex.Task, ex.Trial = ID(ex.ID), ID(ex.Task), ID(ex.Trial)
	sum, size := fingerprint(&ex.Example)
	unique, _ := s.ids.Add(s.at.Row, ex.ID, xxh3.Uint128{Hi: uint64(s.at.Row) + 1})
	st.Renamed(ex.ID, unique)
	ex.ID = unique
	ex.Row = s.at.Row
	s.at.Row++
	s.at.Offset += size
	s.at.Sum = source.Chain(s.at.Sum, sum)
	st.Entries++
	st.Examples++
	st.Calls += ex.Calls
	for _, a := range ex.Answers {
		st.Grade(min(a.Fidelity, claimed), a.Gaps)
		st.GivenTokens += a.PromptTokens
		st.WrittenTokens += a.OutputTokens
	}
	for _, c := range ex.SetAside {
		d := ledger.Drop{
			Unit:    "call",
			Reason:  reasons[c.Why],
			Example: ex.ID,
			Index:   -1,
			File:    c.File,
			Offset:  c.Offset,
		}
		if c.ID != "" {
			d.Detail = "answer " + ID(c.ID)
		}
		s.tally.Drop(d)
	}
}

// fingerprint returns a hash of an example's content, including its task, trial and reward if present, and the
// example's approximate size in bytes.
func fingerprint(ex *ttc.Example) (sum uint64, size int64) {
	h := xxh3.New()
	text := func(s string) {
		size += int64(len(s))
		_, _ = h.WriteString(s)
		_, _ = h.Write([]byte{0})
	}
	text(ex.ID)
	if ex.Trial != "" {
		text(ex.Task)
		text(ex.Trial)
	}
	if ex.Reward != nil {
		text(strconv.FormatFloat(*ex.Reward, 'g', -1, 64))
	}
	for i := range ex.Graph.Nodes {
		m := &ex.Graph.Nodes[i].Message
		for _, s := range []string{m.Role, m.Text, m.Reasoning} {
			text(s)
		}
		for _, p := range m.Parts {
			text(string(p.Raw))
		}
		for _, c := range m.ToolCalls {
			text(c.Name)
			text(c.Arguments)
		}
	}
	return h.Sum64(), size
}

// Inputs returns the inputs read.
func (s *Source) Inputs() []source.Input { return []source.Input{s.input} }

// Stats returns the counts so far.
func (s *Source) Stats() *source.Stats { return &s.tally.S }

// Close closes the reader.
func (s *Source) Close() error { return s.reader.Close() }
