package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// Source reads traces.
type Source struct {
	cfg   Config
	files []string
	tools []chat.Tool // of rollouts without tools of their own
	tally source.Tally
	done  []source.Input

	file    *source.File
	reader  *json.Reader
	entries int64 // of the file
	ids     source.Names
	at      source.Cursor
	err     error
}

var _ source.Source = (*Source)(nil)

// Open opens the files of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*Source, error) {
	files, err := source.Expand(cfg.Path, FileName)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no input: name a file with --from, or set sources.*.path")
	}
	s := &Source{cfg: cfg, files: files}
	if s.tools, err = readTools(cfg.ToolsFile); err != nil {
		return nil, err
	}
	s.tally.Tell = opt.Drop
	if opt.Resume != nil {
		if err := source.Replay(ctx, s, &s.tally, opt); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

func readTools(path string) ([]chat.Tool, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, &source.Error{Path: path, Offset: -1, What: err.Error(), Help: "Check tools_file", Err: err}
	}
	raw, err := json.Parse(b, json.Limits{})
	if err != nil {
		return nil, source.ReadError(path, err, 0)
	}
	tools, err := parseTools(raw)
	if err != nil {
		return nil, &source.Error{Path: path, Offset: -1, What: err.Error(), Help: "tools_file holds a JSON list of tool definitions", Err: err}
	}
	return tools, nil
}

// Capabilities says that files can be read again; whether tasks stand side by side nobody knows before the end.
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
		ex, err := s.entry()
		switch {
		case err == io.EOF:
			s.file.ID.Sum = s.at.Sum
			s.done = append(s.done, s.file.ID)
			if err := s.Close(); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, err
		case ex != nil:
			return ex, nil
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
	s.reader = json.NewReader(f, json.Auto, json.Limits{Size: s.cfg.MaxExample})
	s.ids.Reset()
	s.entries = 0
	s.at = source.Cursor{Run: run}
	return nil
}

// entry reads the next entry of the file. It returns nil for one that was dropped.
func (s *Source) entry() (*ttc.Example, error) {
	raw, offset, err := s.reader.Next()
	var tooLarge *json.SizeError
	if err != nil && !errors.As(err, &tooLarge) {
		if err == io.EOF {
			return nil, err
		}
		return nil, source.ReadError(s.files[s.at.Run], err, s.entries)
	}
	s.entries++
	s.tally.S.Entries++
	ex := &ttc.Example{Run: s.at.Run, Row: s.at.Row, File: s.files[s.at.Run], Offset: offset}
	s.at.Row++
	s.at.Offset = s.reader.Offset()
	drop := func(reason ledger.Reason, detail string) (*ttc.Example, error) {
		if ex.ID == "" {
			ex.ID = source.RowName(ex.Row)
		}
		s.tally.Drop(ledger.Drop{Unit: "example", Reason: reason, Detail: detail, Run: ex.Run, Example: ex.ID, Index: -1, File: ex.File, Offset: offset})
		return nil, nil
	}
	if tooLarge != nil {
		s.at.Sum = source.Chain(s.at.Sum, uint64(offset))
		return drop(ledger.ExampleTooLarge, tooLarge.Error())
	}
	hash := xxh3.Hash128(raw)
	s.at.Sum = source.Chain(s.at.Sum, hash.Lo)
	if err := s.read(raw, ex); err != nil {
		return drop(ledger.BadExample, err.Error())
	}
	if identical := s.name(ex, hash); identical {
		return drop(ledger.IdenticalRow, "the same entry stood in this file before")
	}
	s.tally.S.Examples++
	return ex, nil
}

// name gives the example an id that is unique in the file. It reports an entry that stood there before.
func (s *Source) name(ex *ttc.Example, hash xxh3.Uint128) (identical bool) {
	st := &s.tally.S
	id, missing := ex.ID, false
	switch {
	case id != "":
	case ex.Task != "" && ex.Trial != "":
		id = ex.Task + "/" + ex.Trial
	default:
		id, missing = source.RowName(ex.Row), true
	}
	unique, identical := s.ids.Add(id, hash)
	if identical {
		ex.ID = id
		return true
	}
	if missing {
		st.MissingIDs++
	}
	if unique != id {
		if st.RepeatedIDs++; st.FirstRepeat == "" {
			st.FirstRepeat = id
		}
	}
	ex.ID = unique
	return false
}

// read fills an example from its entry. The error says for a person why it can't.
func (s *Source) read(raw json.Raw, ex *ttc.Example) error {
	cfg := &s.cfg
	if raw.Kind() != json.Object {
		return fmt.Errorf("the entry is %s, not an object", raw.Kind())
	}
	get := func(keys ...string) json.Raw {
		for _, key := range keys {
			if v, ok := raw.Get(key); ok && v.Kind() != json.Null {
				return v
			}
		}
		return nil
	}
	if id := get(cfg.IDKey); id != nil {
		ex.ID, ex.RawID = source.IDText(id), append(json.Raw(nil), id...)
	}
	ex.Task, ex.Trial = source.IDText(get(cfg.TaskKey)), source.IDText(get(cfg.TrialKey))
	if model := get(cfg.PolicyKey); model.Kind() == json.String {
		ex.Policy, _ = model.Text()
	}
	var err error
	if ex.Reward, err = reward(get(cfg.RewardKey)); err != nil {
		return fmt.Errorf("%s: %w", cfg.RewardKey, err)
	}
	ex.Sampling = sampling(get(cfg.SamplingKey))
	ex.Tools = s.tools
	if tools := get(cfg.ToolsKey, "functions"); tools != nil {
		if ex.Tools, err = parseTools(tools); err != nil {
			return fmt.Errorf("%s: %w", cfg.ToolsKey, err)
		}
	}
	messages := get(cfg.MessagesKey, "traj")
	if messages == nil {
		return fmt.Errorf("the entry has no %s", cfg.MessagesKey)
	}
	if err := s.graph(messages, ex); err != nil {
		return err
	}
	if reason := get(cfg.FinishKey); reason.Kind() == json.String {
		if n := lastAssistant(ex.Graph.Nodes); n >= 0 && ex.Graph.Nodes[n].FinishReason == "" {
			ex.Graph.Nodes[n].FinishReason, _ = reason.Text()
		}
	}
	ex.Fidelity = fidelity(ex.Graph.Nodes)
	return nil
}
