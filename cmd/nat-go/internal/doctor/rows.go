package doctor

import (
	"bytes"
	"cmp"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/table"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// method is a trainer's training method.
type method string

// The methods.
const (
	sft method = "sft"
	dpo method = "dpo"
)

// sideNames maps methods to the names of the sequences in a row.
var sideNames = map[method][]string{sft: {"row"}, dpo: {"chosen", "rejected"}}

// MaxRows is the maximum number of rows examined per input.
const MaxRows = 100

const maxRowBytes = 64 << 20

// Input holds rows to compare, which are the first rows of a file or of a run's token batches.
type Input struct {
	Name   string // the file, or the folder of a run's sft batches
	Method method
	rows   []*row
}

// row holds a row as given to the trainer, as given to the collator, and as tokenised by nat-go.
type row struct {
	number int    // index in the input
	line   []byte // a JSON object
	item   *collator.Item
	roles  [][]string // roles of each side's messages
	ours   []Side     // nil if the collator refused the row
	why    string     // reason for the refusal
}

// file reads the first rows from a file of JSON lines: {messages}, {prompt, completion}, {prompt, chosen, rejected}
// or {input_ids, labels}. Of the other columns, it reads only tools; the trainer receives all of them.
func file(path string, limit int) (*Input, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := &Input{Name: path}
	number := 0
	for line, err := range lines.Read(f, maxRowBytes) {
		number++
		if err == nil && len(bytes.TrimSpace(line)) > 0 {
			err = in.add(bytes.Clone(bytes.TrimSpace(line)))
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if len(in.rows) == limit {
			break
		}
	}
	if len(in.rows) == 0 {
		return nil, fmt.Errorf("no rows in %s", path)
	}
	return in, nil
}

// add parses a row and adds it.
func (in *Input) add(line []byte) error {
	raw, err := json.Parse(line, json.Limits{})
	if err != nil {
		return err
	}
	if raw.Kind() != json.Object {
		return fmt.Errorf("expected an object, got %s", raw.Kind())
	}
	r := &row{number: len(in.rows), line: line}
	method := sft
	switch {
	case hasKey(raw, "input_ids"):
		err = r.readTokens(line)
	case hasKey(raw, "chosen"):
		method, err = dpo, r.readPreference(raw)
	case hasKey(raw, "messages"), hasKey(raw, "completion"):
		err = r.readDemonstration(raw)
	default:
		err = fmt.Errorf("missing messages, completion, chosen or input_ids in the row: no turns to compare")
	}
	if err != nil {
		return err
	}
	if in.Method != "" && in.Method != method {
		return fmt.Errorf("row is for %s, but the preceding rows are for %s", method, in.Method)
	}
	in.Method = method
	in.rows = append(in.rows, r)
	return nil
}

func hasKey(raw json.Raw, key string) bool {
	v, ok := raw.Get(key)
	return ok && v.Kind() != json.Null
}

// readTokens sets nat-go's side of a row that is already tokenised.
func (r *row) readTokens(line []byte) error {
	var x struct {
		IDs    []int32 `json:"input_ids"`
		Labels []int32 `json:"labels"`
	}
	if err := stdjson.Unmarshal(line, &x); err != nil {
		return err
	}
	if len(x.IDs) != len(x.Labels) || len(x.IDs) == 0 {
		return fmt.Errorf("input_ids has %d items, labels %d", len(x.IDs), len(x.Labels))
	}
	s := Side{Name: "row", IDs: x.IDs, Trained: make([]bool, len(x.IDs)), class: make([]string, len(x.IDs))}
	for i, l := range x.Labels {
		s.Trained[i] = i > 0 && l != batch.Ignored
		s.class[i] = "context"
		if s.Trained[i] {
			s.class[i] = classTurns
		}
	}
	r.ours = []Side{s}
	return nil
}

func (r *row) readPreference(raw json.Raw) error {
	if !hasKey(raw, "prompt") {
		return fmt.Errorf("missing prompt: write it separately from chosen and rejected, as nat-go does")
	}
	rec := &builders.Resolved{Record: &builders.Preference{}}
	var err error
	for _, p := range []struct {
		key string
		to  *builders.Passage
	}{{"prompt", &rec.Prompt}, {"chosen", &rec.Chosen}, {"rejected", &rec.Rejected}} {
		if *p.to, err = passage(raw, p.key); err != nil {
			return err
		}
	}
	prompt := rolesOf(rec.Prompt, "user")
	for _, answer := range []builders.Passage{rec.Chosen, rec.Rejected} {
		r.roles = append(r.roles, append(prompt[:len(prompt):len(prompt)], rolesOf(answer, "assistant")...))
	}
	return r.setItem(raw, rec)
}

// readDemonstration reads a conversation from messages, or from a prompt and a completion. In the first case, all
// assistant messages are trained on. In the second case, only the completion is.
func (r *row) readDemonstration(raw json.Raw) error {
	d := &builders.Demonstration{Weight: 1}
	rec := &builders.Resolved{Record: d}
	if hasKey(raw, "messages") {
		var err error
		if rec.Messages, err = passage(raw, "messages"); err != nil {
			return err
		}
	} else {
		prompt, err := passage(raw, "prompt")
		completion, completionErr := passage(raw, "completion")
		if err := cmp.Or(err, completionErr); err != nil {
			return err
		}
		given, made := nodesOf(prompt, "user"), nodesOf(completion, "assistant")
		nodes := append(given, made...)
		d.Train, d.Trained = builders.TrainFlagged, make([]bool, len(nodes))
		for i := range nodes {
			nodes[i].Parent = i - 1
			d.Trained[i] = i >= len(given)
		}
		rec.Messages = builders.Passage{Nodes: nodes}
	}
	r.roles = [][]string{rolesOf(rec.Messages, "user")}
	return r.setItem(raw, rec)
}

// setItem sets the item from which nat-go's row is built. The item is the record rec with the row's tools.
func (r *row) setItem(raw json.Raw, rec *builders.Resolved) error {
	rec.Origin = &builders.Origin{Row: int64(r.number), Example: strconv.Itoa(r.number), Fidelity: ttc.TextOnly}
	if tools, ok := raw.Get("tools"); ok {
		if tools.Kind() == json.String { // the tools column contains JSON as text
			text, _ := tools.Text()
			tools = json.Raw(text)
		}
		if tools.Kind() == json.Array {
			for t := range tools.Elements() {
				tool, err := chat.ParseTool(t)
				if err != nil {
					return fmt.Errorf("tools: %w", err)
				}
				rec.Origin.Tools = append(rec.Origin.Tools, tool)
			}
		}
	}
	r.item = &collator.Item{Record: rec, Hash: strconv.Itoa(r.number)}
	return nil
}

func passage(raw json.Raw, key string) (builders.Passage, error) {
	v, ok := raw.Get(key)
	switch {
	case !ok:
		return builders.Passage{}, fmt.Errorf("missing %s", key)
	case v.Kind() == json.String:
		text, _ := v.Text()
		return builders.Passage{Text: text}, nil
	}
	messages, err := chat.ParseMessages(v)
	if err != nil {
		return builders.Passage{}, fmt.Errorf("%s: %w", key, err)
	}
	return builders.Passage{Nodes: ttc.Chain(messages, ttc.Assumed).Nodes}, nil
}

func nodesOf(p builders.Passage, role string) []ttc.Node {
	if !p.IsText() {
		return p.Nodes
	}
	return ttc.Chain([]chat.Message{{Role: role, Form: chat.Text, Text: p.Text}}, ttc.Assumed).Nodes
}

func rolesOf(p builders.Passage, role string) (roles []string) {
	for _, n := range nodesOf(p, role) {
		roles = append(roles, n.Message.Role)
	}
	return roles
}

// batches reads the first sft rows from a run folder's token batches, in the form in which a trainer reads ids and
// labels.
func batches(run runfolder.Folder, limit int) (*Input, error) {
	folder := run.Batches()
	in := &Input{Name: filepath.Join(folder, "sft"), Method: sft}
	err := batch.EachLine(filepath.Join(folder, batch.IndexName), func(l *batch.Line) error {
		if l.Channel != batch.SFT.Name || len(in.rows) >= limit {
			return nil
		}
		rows, err := batch.Read(folder, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.File, err)
		}
		rows = rows[:min(len(rows), limit-len(in.rows))]
		return lists.Each(rows, func(r *batch.Row) error { return in.addTokenised(sidesOf(r, nil)[0]) })
	})
	return in, err
}

// parquet reads the first rows from a file with the columns input_ids and labels.
func parquet(path string, limit int) (*Input, error) {
	f, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	r, err := table.Open(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer r.Close()
	for _, column := range []string{"input_ids", "labels"} {
		if _, ok := r.Schema().Lookup(column, "list", "element"); !ok {
			return nil, fmt.Errorf("no column %[2]s of lists of numbers in %[1]s; only Parquet files with tokens can be compared", path, column)
		}
	}
	in := &Input{Name: path, Method: sft}
	for len(in.rows) < limit {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		columns, _ := row.(map[string]any)
		var line []byte
		if err == nil {
			line, err = stdjson.Marshal(map[string]any{"input_ids": columns["input_ids"], "labels": columns["labels"]})
		}
		if err == nil {
			err = in.add(line)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: row %d: %w", path, len(in.rows), err)
		}
	}
	return in, nil
}

// addTokenised adds a row from a token batch.
func (in *Input) addTokenised(s Side) error {
	labels := make([]int32, len(s.IDs))
	for i, id := range s.IDs {
		labels[i] = batch.Ignored
		if s.Trained[i] {
			labels[i] = id
		}
	}
	line, err := stdjson.Marshal(map[string][]int32{"input_ids": s.IDs, "labels": labels})
	if err != nil {
		return err
	}
	in.rows = append(in.rows, &row{number: len(in.rows), line: line, ours: []Side{s}})
	return nil
}

// Side is one token sequence of a row. A preference row has a chosen and a rejected sequence, and other rows have one
// sequence.
type Side struct {
	Name    string
	IDs     []int32
	Trained []bool   // whether each token is trained; false for the first token, which can't be predicted
	class   []string // the kind of each token; set only for nat-go's rows
}

// The kinds of tokens, in words.
const (
	classTurns     = "assistant turns"
	classUntrained = "assistant turns that nat-go doesn't train on"
	classTemplate  = "template text"
)

var classOfOwner = map[string]string{
	batch.InLoss: classTurns, batch.Markup: classTemplate, batch.Tools: "tool definitions",
	batch.Filler: "template filler (no model wrote it)", batch.CutOff: "ends of turns that were cut off",
	batch.NotSampled: classUntrained, batch.OtherRow: classUntrained, batch.Policy: classUntrained,
}

var classOfRole = map[string]string{
	"tool":      "tool results",
	"function":  "tool results",
	"user":      "user messages",
	"system":    "system messages",
	"developer": "system messages",
}

// makeRows tokenises the rows that aren't tokenised yet with nat-go's collator, one row per conversation, as trainers
// of text rows do. It sets the field ours of each row or, if the collator refuses the row, the field why.
func makeRows(ctx context.Context, cfg collator.Config, in *Input, scratch string) error {
	cfg.Rows, cfg.Layout, cfg.Workers = collator.Trajectory, batch.Padded, 1
	cfg.BatchTokens = max(cfg.BatchTokens, cfg.MaxLength)
	c, err := collator.New(cfg)
	if err != nil {
		return err
	}
	var rows []*row // indexed by ordinal
	byExample := map[string]*row{}
	for _, r := range in.rows {
		if r.item != nil {
			rows, byExample[r.item.Hash] = append(rows, r), r
		}
	}
	var items iter.Seq2[[]collator.Item, error] = func(yield func([]collator.Item, error) bool) {
		for _, r := range rows {
			if !yield([]collator.Item{*r.item}, nil) {
				return
			}
		}
	}
	if len(byExample) == 0 {
		return nil
	}
	_, err = c.Collate(ctx, items, scratch, scratch, func(d ledger.Drop) {
		if r := byExample[d.Example]; r != nil && (d.Unit == "record" || r.why == "") {
			r.why = fmt.Sprintf("%s: %s", d.Reason, d.Detail)
		}
	})
	if err != nil {
		return err
	}
	dir := filepath.Join(scratch, "batches")
	return batch.EachLine(filepath.Join(dir, batch.IndexName), func(l *batch.Line) error {
		made, err := batch.Read(dir, l)
		if err != nil {
			return err
		}
		for _, b := range made {
			r := rows[b.Meta.Ordinal]
			r.ours = sidesOf(b, r.roles)
		}
		return nil
	})
}

// sidesOf returns the sides of a row in a batch. roles holds the roles of each side's messages.
func sidesOf(b *batch.Row, roles [][]string) []Side {
	names := sideNames[sft]
	if len(b.Sides) == 2 {
		names = sideNames[dpo]
	}
	out := make([]Side, len(names))
	for k := range out {
		from := &b.Sides[k]
		s := Side{
			Name: names[k], IDs: from.IDs, Trained: make([]bool, len(from.IDs)),
			class: make([]string, len(from.IDs)),
		}
		for _, run := range from.Trained {
			for i := run.Start; i < run.End; i++ {
				s.Trained[i] = true
			}
		}
		var owners batch.Owners
		if k < len(b.Meta.Proof) {
			owners = b.Meta.Proof[k].Owners
		}
		at := 0
		for _, o := range owners {
			class := classOfOwner[o.Why]
			if o.Why == batch.Context {
				class = "context"
				if k < len(roles) && o.Message >= 0 && o.Message < len(roles[k]) {
					role := roles[k][o.Message]
					class = cmp.Or(classOfRole[role], fmt.Sprintf("messages with role %q", role))
				}
			}
			for ; at < o.End && at < len(s.class); at++ {
				s.class[at] = class
			}
		}
		out[k] = s
	}
	return out
}
