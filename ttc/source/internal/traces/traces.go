package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/internal/candidates"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/published"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
	"github.com/nat-go/nat-go/ttc/source/internal/transcript"
)

// Source reads traces.
type Source struct {
	source.Walk
	cfg     Config
	tools   []chat.Tool // tools for rollouts that don't have their own
	entries int64       // number of entries read from the file
	system  string      // the system message given next to the entry's messages

	candidates *candidates.Reader
	fields     map[string]json.Raw // values in the current entry, by key
	keys       source.Keeper       // stores the keys of fields
	unread     []string            // keys of the current entry that have a meaning but are not read
	lastTools  struct {            // the tool definitions that were read last
		raw    json.Raw
		parsed []chat.Tool
	}

	shape      *published.Conversations // shape of the entries; nil means they are plain
	shapeTools string                   // key of the tools in entries of a shape; empty for plain ones
	keepEqual  bool                     // keep duplicate entries
}

var _ source.Source = (*Source)(nil)

// Open opens the files of cfg.Path.
func Open(ctx context.Context, cfg Config, opt source.Options) (*Source, error) {
	s := newSource(cfg)
	err := s.InitFiles(cfg.Path, fileName, "a file", cfg.MaxEmpty, opt, s.begin, s.entry)
	if err != nil {
		return nil, err
	}
	s.Tally.S.Names = map[string]int64{}
	if s.tools, err = readTools(ctx, cfg.ToolsFile); err != nil {
		return nil, err
	}
	return source.Replay(ctx, s, &s.Tally, opt)
}

func newSource(cfg Config) *Source {
	s := &Source{cfg: cfg, candidates: candidates.NewReader(cfg.CandidateKeys)}
	if s.shape = published.ConversationsNamed(cfg.Shape); s.shape != nil {
		s.cfg.MessagesKey, s.shapeTools = published.MessagesKey, published.ToolsKey
	}
	return s
}

// maxTools is the maximum size of a tools file, in bytes.
const maxTools = 64 << 20

func readTools(ctx context.Context, path string) ([]chat.Tool, error) {
	if path == "" {
		return nil, nil
	}
	b, err := source.ReadFile(ctx, path, maxTools)
	if err != nil {
		return nil, source.Failure(path, err.Error(), "Check tools_file", err)
	}
	raw, err := json.Parse(b, json.Limits{})
	if err != nil {
		return nil, source.ReadError(path, err, 0)
	}
	tools, err := parseTools(raw)
	if err != nil {
		return nil, source.Failure(path, err.Error(), "tools_file must hold a JSON list of tool definitions", err)
	}
	return tools, nil
}

func (s *Source) begin(f *source.File) *json.Reader {
	f.Within(s.cfg.EntriesKey)
	s.entries = 0
	return json.NewReader(f, json.Auto, json.Limits{Size: s.cfg.MaxExample, Objects: s.cfg.MaxObjects})
}

// entry reads the next entry in the file. It returns nil for an entry that was dropped.
func (s *Source) entry(context.Context) (*ttc.Example, error) {
	raw, offset, err := s.Reader.Next()
	var tooLarge *json.SizeError
	if err != nil && !errors.As(err, &tooLarge) {
		if err == io.EOF {
			return nil, err
		}
		return nil, source.ReadError(s.Path(), err, s.entries)
	}
	s.entries++
	s.Tally.S.Entries++
	s.Begin(offset, 0)
	ex := &ttc.Example{Run: s.At.Run, Row: s.At.Row, File: s.Path(), Offset: offset}
	s.At.Row++
	s.At.Offset = s.Reader.Offset()
	drop := func(reason ledger.Reason, detail string) (*ttc.Example, error) {
		ex.ID = cmp.Or(ex.ID, source.RowName(ex.Row))
		s.Tally.DropPart(ex, "example", "", reason, detail)
		return nil, nil
	}
	if tooLarge != nil {
		s.Chain(uint64(offset))
		return drop(source.ExampleTooLarge, tooLarge.Error())
	}
	hash := xxh3.Hash128(raw)
	s.Chain(hash.Lo)
	s.unread = s.unread[:0]
	if s.shape != nil {
		var unread []string
		if raw, unread, err = s.shape.Rewrite(raw); err != nil {
			return drop(source.BadExample, err.Error())
		}
		s.unread = append(s.unread, unread...)
	}
	if err := s.read(raw, ex); err != nil {
		return drop(source.BadExample, err.Error())
	}
	if s.keepEqual { // a different hash for each, so that none is a duplicate
		hash = xxh3.Uint128{Hi: uint64(offset), Lo: 1}
	}
	if s.IDs.Name(ex, hash, &s.Tally.S) {
		return drop(source.IdenticalRow, "the same entry occurs earlier in this file")
	}
	if s.Scans() {
		return ex, nil
	}
	s.addCandidates(ex)
	s.addPairs(raw, ex)
	for _, key := range s.unread {
		s.Tally.Unused(ex, key)
	}
	return ex, nil
}

// addCandidates reads the answers that were considered at single turns, if the entry has any.
func (s *Source) addCandidates(ex *ttc.Example) {
	list := s.fields[s.cfg.CandidatesKey]
	if list.Kind() != json.Array {
		return
	}
	s.candidates.Begin()
	st := &s.Tally.S
	for e := range list.Elements() {
		st.Steps++
		c := ttc.Candidate{Step: s.cfg.CandidateKeys.StepName, Offset: ex.Offset}
		reason, detail := source.BadStep, "the candidate is "+e.Kind().String()+", not an object"
		if e.Kind() == json.Object {
			reason, detail = s.candidates.Candidate(e, &c)
		}
		if reason != "" {
			s.Tally.DropPart(ex, "step", c.Turn, reason, detail)
			continue
		}
		st.AddCandidate(ex, c)
	}
	ex.Policy = cmp.Or(ex.Policy, s.candidates.Policy())
}

// meaningful lists keys of an entry that have a meaning but are not read under these names; telling lists such keys of
// a message.
var (
	meaningful = []string{
		"rewards", "score", "scores", "advantage", "advantages", "hint", "hints", "preferences",
		"system", "system_prompt", "system_message", "history",
		"tool_errors",
		"input_ids", "prompt_ids", "prompt_token_ids", "labels", "mask", "masks", "response_mask", "loss_mask",
		"old_logprobs", "ref_logprobs", "inference_logprobs",
	}
	telling = []string{"reward", "score", "advantage", "mask", "loss_mask", "train", "hint", "weight"}
)

// unreadOf records the keys of an entry that have a meaning but are not read.
func (s *Source) unreadOf() {
	cfg := &s.cfg
	read := []string{
		cfg.IDKey, cfg.MessagesKey, cfg.ToolsKey, cfg.RewardKey, cfg.TaskKey, cfg.TrialKey, cfg.PolicyKey, cfg.TruthKey,
		cfg.FinishKey, cfg.SamplingKey, cfg.CandidatesKey, cfg.PairsKey, cfg.ReplaysKey,
		cfg.SystemKey, cfg.HistoryKey, cfg.PromptKey, cfg.ResponseKey, cfg.ContextKey,
	}
	for _, key := range meaningful {
		if s.field(key) != nil && !slices.Contains(read, key) {
			s.unread = append(s.unread, key)
		}
	}
	var lists []string
	for _, key := range []string{cfg.MessagesKey, "traj", "turns"} {
		if s.field(key) != nil && !slices.Contains(lists, key) {
			lists = append(lists, key)
		}
	}
	if len(lists) > 1 { // only the first list is read
		s.unread = append(s.unread, lists[1:]...)
	}
}

// index stores an entry's values by key, so that the entry is searched only once. The last of several duplicates wins.
func (s *Source) index(entry json.Raw) {
	if s.fields == nil {
		s.fields = map[string]json.Raw{}
	}
	clear(s.fields)
	for k, v := range entry.Members() {
		s.fields[s.keys.Name(k.Bytes())] = v
	}
}

// field returns the value under the first of the keys that has one in the entry. Keys that aren't set are skipped. A
// key may be a path, as in source.At.
func (s *Source) field(keys ...string) json.Raw {
	for _, key := range keys {
		v := s.fields[key]
		if part, path, isPath := strings.Cut(key, "."); v == nil && isPath {
			v = source.Within(s.fields[part], path)
		}
		if v != nil && key != "" && v.Kind() != json.Null {
			return v
		}
	}
	return nil
}

// read fills an example from its entry. The error explains why it can't.
func (s *Source) read(raw json.Raw, ex *ttc.Example) error {
	cfg := &s.cfg
	s.index(raw)
	if raw.Kind() == json.Array {
		ex.Tools, s.system = s.tools, ""
		return finish(nil, ex, s.graph(raw, ex))
	}
	if raw.Kind() != json.Object {
		return fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	if id := s.field(cfg.IDKey, "trace_id"); id != nil {
		ex.ID, ex.RawID = source.IDText(id), append(json.Raw(nil), id...)
	}
	ex.Task, ex.Trial = source.IDText(s.field(cfg.TaskKey)), source.IDText(s.field(cfg.TrialKey))
	ex.Policy, _ = s.field(cfg.PolicyKey).Text()
	ex.Truth = slices.Clone(s.field(cfg.TruthKey))
	var err error
	if said := s.field(cfg.RewardKey, "final_reward"); s.isReason(said) {
		s.unused(cfg.RewardKey)
	} else if ex.Reward, err = reward(said); err != nil {
		return fmt.Errorf("%s: %w", cfg.RewardKey, err)
	}
	ex.Sampling = sampling(s.field(cfg.SamplingKey))
	if ex.TeacherTopK, err = s.overrides(s.field(cfg.OverridesKey)); err != nil {
		return fmt.Errorf("%s: %w", cfg.OverridesKey, err)
	}
	ex.Tools = s.tools
	if tools := s.field(cfg.ToolsKey, s.shapeTools, "functions"); tools != nil {
		if ex.Tools, err = s.toolsOf(tools); err != nil {
			return fmt.Errorf("%s: %w", cfg.ToolsKey, err)
		}
	}
	s.system = s.systemOf(s.field(cfg.SystemKey, "systemInstruction", "system_instruction"))
	messages := s.renamed(s.field(cfg.MessagesKey, "traj", "turns"))
	prompt, response := s.field(cfg.PromptKey), s.field(cfg.ResponseKey)
	s.unreadOf()
	switch {
	case messages != nil:
		if cfg.HistoryKey != cfg.MessagesKey && s.field(cfg.ChosenKey) == nil &&
			len(s.earlier(s.field(cfg.HistoryKey))) > 0 {
			s.unused(cfg.HistoryKey)
		}
		err = s.graph(s.fromTranscript(messages), ex)
		if err == nil {
			err = s.idsBeside(ex.Graph.Nodes)
		}
		return finish(s.field(cfg.FinishKey), ex, err)
	case s.field(cfg.PairsKey).Kind() == json.Array || s.field(cfg.ReplaysKey).Kind() == json.Array ||
		s.field(cfg.AnswersKey).Kind() == json.Array || s.isPair():
		ex.Fidelity = ttc.TextOnly
		return nil
	case prompt != nil && response != nil:
		err = s.demonstration(s.fromTranscript(prompt), response, ex)
		return finish(s.field(cfg.FinishKey), ex, err)
	}
	return fmt.Errorf("missing %s; the keys are: %s", cfg.MessagesKey, source.KeysOf(raw))
}

// fromTranscript returns the messages that a string contains, if strings are transcripts.
func (s *Source) fromTranscript(raw json.Raw) json.Raw {
	text, ok := raw.Text()
	if !ok || s.cfg.Transcripts != "split" {
		return raw
	}
	messages := transcript.Split(text)
	if messages == nil {
		return raw
	}
	var out compose.List
	for _, m := range messages {
		out = out.AddMessage(m.Role, m.Text)
	}
	return out.End()
}

// systemText returns the text of a system message that is given separately from the conversation, as a string or as
// Google's parts.
func systemText(raw json.Raw) string {
	parts, ok := raw.Get("parts")
	if !ok && isUntyped(raw) {
		parts, ok = raw, true
	}
	if !ok {
		text, _ := raw.Text()
		return text
	}
	text, _ := chat.TextOfParts(textParts(parts))
	return text
}

// finish records why the model stopped, and the fidelity that the conversation can prove.
func finish(reason json.Raw, ex *ttc.Example, err error) error {
	if err != nil {
		return err
	}
	if reason.Kind() == json.String {
		if n := lastAssistant(ex.Graph.Nodes); n >= 0 && ex.Graph.Nodes[n].FinishReason == "" {
			ex.Graph.Nodes[n].FinishReason, _ = reason.Text()
		}
	}
	ex.Fidelity = fidelity(ex.Graph.Nodes)
	return nil
}
