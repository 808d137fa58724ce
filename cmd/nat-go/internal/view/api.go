package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/marks"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/show"
	"github.com/nat-go/nat-go/collator/tokenview"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Limits on a response. The page requests lists and text one window at a time.
const (
	maxRows    = 200
	maxTokens  = 512
	maxSnippet = 160       // maximum size in bytes
	maxText    = 256 << 10 // maximum size in bytes; the response notes that the rest is omitted
	maxWindow  = 200       // number of messages
	maxTools   = 64

	maxHits       = 1000 // maximum number of rows that one search sends
	progressEvery = 1000 // number of records between a search's progress reports
)

// answer is an endpoint's response, which is either a value to encode as JSON or a streamed response.
type answer any

// streamed is an answer that is sent line by line as it is produced.
type streamed func(send func(line any) error) error

// serve sends the lines. If producing them fails, it sends the error as the last line.
func (s streamed) serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	control := http.NewResponseController(w)
	send := func(line any) error {
		_, body := encode(line, nil)
		if _, err := w.Write(body); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := s(send); err != nil {
		_ = send(hit{Error: text(err.Error())})
	}
}

// routes returns the endpoints.
func (r *Run) routes() map[string]func(*http.Request) (answer, error) {
	return map[string]func(*http.Request) (answer, error){
		"GET /api/name": func(*http.Request) (answer, error) {
			return map[string]any{"run": r.name(), "compared": r.other != nil}, nil
		},
		"GET /api/overview": func(*http.Request) (answer, error) { return r.overview() },
		"GET /api/rows":     r.rows,
		"GET /api/search":   r.searchTexts,
		"GET /api/record":   r.thisOrOther((*Run).oneRecord),
		"GET /api/drops":    r.drops,
		"GET /api/batches":  r.thisOrOther((*Run).batchRows),
		"GET /api/row":      r.thisOrOther((*Run).tokenHead),
		"GET /api/tokens":   r.thisOrOther((*Run).tokenWindow),
		"GET /api/written":  r.thisOrOther((*Run).written),
		"GET /api/compare":  r.compare,
		"POST /api/mark":    r.thisOrOther((*Run).mark),
	}
}

// thisOrOther returns an endpoint that answers for this run or, if the request contains run=2, for the run that it is
// compared with.
func (r *Run) thisOrOther(of func(*Run, *http.Request) (answer, error)) func(*http.Request) (answer, error) {
	return func(req *http.Request) (answer, error) {
		switch which := req.URL.Query().Get("run"); {
		case which == "":
			return of(r, req)
		case which == "2" && r.other != nil:
			return of(r.other, req)
		}
		return nil, badQuery{errors.New("unknown run")}
	}
}

// rowsAnswer is a window of the table.
type rowsAnswer struct {
	Total  int   `json:"total"`            // number of rows that match the filter; 0 if Search is set
	Search bool  `json:"search,omitempty"` // the filter has text conditions; the page must use /api/search instead
	Rows   []row `json:"rows"`
}

// row is a line of the table.
type row struct {
	Record   uint64   `json:"record"` // record number, starting at 1
	Kind     string   `json:"kind"`
	Builder  string   `json:"builder"`
	Example  string   `json:"example"`
	Task     string   `json:"task,omitempty"`
	Turn     string   `json:"turn,omitempty"`
	Fate     string   `json:"fate"`
	Score    *float64 `json:"score"`
	Length   uint32   `json:"length"`
	Messages uint16   `json:"messages"`
	Turns    uint16   `json:"turns"`
	Share    *float64 `json:"share"`  // share of the record's tokens that are trained on
	Spread   *float64 `json:"spread"` // spread of the rewards in the record's group
	Sites    uint16   `json:"sites"`
	Fidelity string   `json:"fidelity"`
	Mark     string   `json:"mark,omitempty"`
	Formats  []string `json:"formats,omitempty"` // formats with rows for the record; set only in an exported file
	Text     string   `json:"text"`              // result of snippet
}

func (r *Run) rows(req *http.Request) (answer, error) {
	q := req.URL.Query()
	found, f, err := r.find(q.Get("q"), q.Get("sort"))
	if err != nil {
		return nil, err
	}
	offset, limit, err := window(q.Get("offset"), q.Get("limit"), maxRows)
	if err != nil {
		return nil, err
	}
	a := rowsAnswer{Total: len(found), Rows: []row{}}
	if len(f.texts.Clauses) > 0 {
		a.Total, a.Search = 0, true
		return a, nil
	}
	marked := r.verdicts()
	for _, n := range found[min(offset, len(found)):min(offset+limit, len(found))] {
		line, err := r.row(uint64(n), marked)
		if err != nil {
			return nil, err
		}
		a.Rows = append(a.Rows, line)
	}
	return a, nil
}

// hit is a line of a search's response. It contains a matching row, the search's progress, or an error.
type hit struct {
	Row   *row   `json:"row,omitempty"`
	At    int    `json:"at,omitempty"` // number of records searched so far
	Of    int    `json:"of,omitempty"`
	More  bool   `json:"more,omitempty"` // the search ended after maxHits; continue from "at"
	Error string `json:"error,omitempty"`
}

// searchTexts finds the records that match a filter with text conditions, and sends each one as soon as it is found.
func (r *Run) searchTexts(req *http.Request) (answer, error) {
	q := req.URL.Query()
	found, f, err := r.find(q.Get("q"), q.Get("sort"))
	if err != nil {
		return nil, err
	}
	at, _, err := window(q.Get("at"), "", maxRows)
	if err != nil {
		return nil, err
	}
	return streamed(func(send func(line any) error) error {
		at, hits, marked := min(at, len(found)), 0, r.verdicts()
		for at < len(found) && hits < maxHits {
			var failed error
			part := found[at:min(at+progressEvery, len(found))]
			n, err := r.search(req.Context(), part, f, func(n uint32) bool {
				line, err := r.row(uint64(n), marked)
				if err == nil {
					err = send(hit{Row: &line})
				}
				hits, failed = hits+1, err
				return err == nil && hits < maxHits
			})
			if err := errors.Join(err, failed); err != nil {
				return err
			}
			if at += n; at < len(found) && hits < maxHits {
				if err := send(hit{At: at, Of: len(found)}); err != nil {
					return err
				}
			}
		}
		return send(hit{At: at, Of: len(found), More: at < len(found)})
	}), nil
}

func window(offset, limit string, maxLimit int) (from, n int, err error) {
	n = maxLimit
	for _, x := range []struct {
		text string
		to   *int
	}{{offset, &from}, {limit, &n}} {
		if x.text == "" {
			continue
		}
		if *x.to, err = strconv.Atoi(x.text); err != nil || *x.to < 0 {
			return 0, 0, badQuery{fmt.Errorf("invalid number %q", x.text)}
		}
	}
	return min(from, 1<<40), min(n, maxLimit), nil
}

// row returns a line of the table. marked is the result of verdicts.
func (r *Run) row(ordinal uint64, marked map[uint64]string) (row, error) {
	p, err := r.record(ordinal)
	if err != nil {
		return row{}, err
	}
	e := &r.table.Entries[ordinal]
	line := row{
		Record: ordinal + 1, Kind: p.Record.Kind().String(), Builder: p.Origin.Builder, Example: text(p.Origin.Example),
		Task: text(p.Origin.Task), Turn: text(p.Record.Header().Turn), Fate: show.Fate(p),
		Score: finiteOrNil(float64(e.Score)), Length: e.Chars, Messages: e.Messages, Turns: e.Turns,
		Share: finiteOrNil(e.share()), Spread: finiteOrNil(float64(e.Spread)), Sites: e.Sites,
		Fidelity: ttc.Fidelity(e.Fidelity).String(), Mark: marked[e.Content], Text: snippet(p.Resolved),
	}
	if r.undecided() {
		line.Fate = "undecided"
	}
	return line, nil
}

// finiteOrNil returns a pointer to v if v is finite, and otherwise nil, which JSON encodes as null.
func finiteOrNil(v float64) *float64 {
	if !finite(v) {
		return nil
	}
	return &v
}

// snippet returns the beginning of the last user message of a prompt or conversation. If the prompt or conversation is
// plain text, snippet returns the beginning of that text.
func snippet(r *builders.Resolved) string {
	p := r.Prompt
	if r.Record.Kind() != builders.KindPreference {
		p = r.Messages
	}
	s := p.Text
	for i := range p.Nodes {
		if m := &p.Nodes[i].Message; m.Role == "user" && m.Text != "" {
			s = m.Text
		}
	}
	s = strings.Join(strings.Fields(s[:min(len(s), 4*maxSnippet)]), " ")
	return text(s[:min(len(s), maxSnippet)])
}

// text replaces invalid UTF-8 with U+FFFD.
func text(s string) string {
	return strings.ToValidUTF8(s, "�")
}

// recordAnswer is the content of a record's page.
type recordAnswer struct {
	Row      row             `json:"row"`
	File     string          `json:"file,omitempty"` // file that the example comes from
	Offset   int64           `json:"offset"`         // byte offset in that file
	Line     int64           `json:"line,omitempty"` // line that contains that byte, starting at 1; 0 means unknown
	Key      string          `json:"key"`            // identifies the record in marks
	Mark     *marks.Mark     `json:"mark,omitempty"`
	View     json.RawMessage `json:"view"`               // as in `dataset show --json`
	Diff     *sides          `json:"diff,omitempty"`     // differences between a preference's answers
	Sampled  []string        `json:"sampled,omitempty"`  // for each message shown, whether the model generated it
	Turns    []turn          `json:"turns,omitempty"`    // turns of a demonstration
	Branches []branch        `json:"branches,omitempty"` // at most maxBranches
	From     int             `json:"from"`               // index of the first message shown
	Messages int             `json:"messages"`           // total number of messages in the conversation
	Before   int             `json:"before"`             // number of messages omitted at the start of a prompt
	AllTools int             `json:"all_tools"`          // total number of tools; Tools holds at most maxTools
	Sites    []site          `json:"sites,omitempty"`
	Tools    []tool          `json:"tools,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	Prev     uint64          `json:"prev"` // numbers of the adjacent records in the group, from 1; 0 means none
	Next     uint64          `json:"next"`
}

type sides struct {
	Chosen   []show.Piece `json:"chosen"`
	Rejected []show.Piece `json:"rejected"`
}

// site is a failed call. Call and Result are message indices, starting at 0.
type site struct {
	Call   int    `json:"call"`
	Result int    `json:"result"` // -1 means that there is no result
	Tool   string `json:"tool"`
	Error  string `json:"error"`
	Hint   string `json:"hint"`
	Source string `json:"source"`
}

type tool struct {
	Name string          `json:"name"`
	Raw  json.RawMessage `json:"schema"`
}

// asked returns the record named in a request, the record's number, starting at 1, and its content hash.
func (r *Run) asked(req *http.Request) (n uint64, p dataset.Picked, content recordlog.Hash, err error) {
	if n, err = strconv.ParseUint(req.URL.Query().Get("n"), 10, 64); err != nil || n == 0 {
		return 0, p, content, badQuery{errors.New("invalid record number: records are numbered from 1")}
	}
	if p, err = r.record(n - 1); err == nil {
		content, err = r.content(n - 1)
	}
	return n, p, content, err
}

func (r *Run) oneRecord(req *http.Request) (answer, error) {
	n, p, content, err := r.asked(req)
	if err != nil {
		return nil, err
	}
	from, limit, err := window(req.URL.Query().Get("from"), "", maxWindow)
	if err != nil {
		return nil, err
	}
	view, nodes := show.Record(p), p.Messages.Nodes
	if r.plain != nil { // without a log, nothing is known about a row except its content
		view.Title, view.Facts = fmt.Sprintf("%s, %s", text(p.Origin.Example), p.Record.Kind()), nil
	}
	from = min(from, len(nodes))
	shown := nodes[from:min(from+limit, len(nodes))]
	view.Messages.Nodes = shown
	before := max(0, len(view.Prompt.Nodes)-maxWindow)
	view.Prompt.Nodes = view.Prompt.Nodes[before:]
	a := recordAnswer{
		Key: marks.Key(content), View: show.AppendJSON(nil, view.Cut(maxText)),
		File: text(p.Origin.File), Offset: p.Origin.Offset, From: from, Messages: len(nodes), Before: before,
		AllTools: len(p.Origin.Tools),
	}
	a.Line = r.lineOf(req.Context(), p.Origin.File, p.Origin.Offset)
	if a.Row, err = r.row(n-1, r.verdicts()); err != nil {
		return nil, err
	}
	if m, ok := r.marks.Get(content); ok {
		a.Mark = &m
	}
	a.describe(p)
	for i := range shown {
		a.Sampled = append(a.Sampled, shown[i].Sampled.String())
	}
	if r.plain != nil {
		return a, nil
	}
	g, at, err := r.group(n - 1)
	if err != nil {
		return nil, err
	}
	for _, t := range r.turns(&g, at) {
		if t.Message >= from && t.Message < from+len(shown) {
			a.Turns = append(a.Turns, t)
		}
	}
	if at > 0 {
		a.Prev = n - 1
	}
	if at+1 < len(g.Records) {
		a.Next = n + 1
	}
	a.Branches = g.branches(at)
	return a, nil
}

// describe adds a record's metadata and tools, the differences between a preference's answers, and the failed calls.
func (a *recordAnswer) describe(p dataset.Picked) {
	if raw := p.Record.Header().Metadata; json.Valid(raw) {
		a.Metadata = json.RawMessage(raw)
	}
	for i, t := range p.Origin.Tools {
		if i < maxTools && json.Valid(t.Raw) {
			a.Tools = append(a.Tools, tool{text(t.Name), json.RawMessage(t.Raw)})
		}
	}
	switch x := p.Record.(type) {
	case *builders.Preference:
		a.Diff = diff(answerText(p.Chosen), answerText(p.Rejected))
	case *builders.Distillation:
		for _, s := range x.Sites {
			a.Sites = append(a.Sites, site{
				s.Call, s.Result, text(s.Tool), text(s.Error), text(s.Hint), text(s.HintSource),
			})
		}
	}
}

// answerText returns an answer as a single text for comparison. It consists of each message's text, followed by the
// message's calls.
func answerText(p builders.Passage) string {
	if p.IsText() {
		return p.Text
	}
	var b strings.Builder
	for i := range p.Nodes {
		m := &p.Nodes[i].Message
		b.WriteString(m.Text)
		for _, c := range m.ToolCalls {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "%s(%s)", c.Name, c.Arguments)
		}
	}
	return b.String()
}

// diff compares two answers word by word. It returns nil if either answer is too long.
func diff(chosen, rejected string) *sides {
	const maxDiffBytes = 200 << 10 // marking words is pointless in longer text
	if len(chosen) > maxDiffBytes || len(rejected) > maxDiffBytes {
		return nil
	}
	left, right, _ := show.Compare(chosen, rejected)
	for _, list := range [][]show.Piece{left, right} {
		for i := range list {
			list[i].Text = text(list[i].Text)
		}
	}
	return &sides{left, right}
}

// dropsAnswer is a window of the drops.
type dropsAnswer struct {
	Total int64     `json:"total"` // number of lines that match the query
	Drops []dropped `json:"drops"`
}

// dropped is a drop with its related records. A related record comes from the drop's example and, if the drop names a
// builder, was made by that builder. If the drop was made by the gate or by curation, only the records dropped for the
// same reason are related to it.
type dropped struct {
	ledger.Drop
	Record  uint64 `json:"record,omitempty"`  // number of the first related record, starting at 1
	Records int    `json:"records,omitempty"` // number of related records
}

func (r *Run) drops(req *http.Request) (answer, error) {
	q := req.URL.Query()
	offset, limit, err := window(q.Get("offset"), q.Get("limit"), maxRows)
	if err != nil {
		return nil, err
	}
	a := dropsAnswer{Drops: []dropped{}}
	stage, reason, unit := ledger.Stage(q.Get("stage")), ledger.Reason(q.Get("reason")), q.Get("unit")
	err = r.eachDrop(func(d *ledger.Drop) {
		if stage != "" && d.Stage != stage || reason != "" && d.Reason != reason || unit != "" && d.Unit != unit {
			return
		}
		if a.Total++; a.Total > int64(offset) && len(a.Drops) < limit {
			a.Drops = append(a.Drops, dropped{Drop: *d})
		}
	})
	r.findDropped(a.Drops)
	return a, err
}

// findDropped sets the records related to each drop.
func (r *Run) findDropped(list []dropped) {
	of := map[uint64][]*dropped{} // the drops, keyed by the hash of their example's id
	for i := range list {
		if d := &list[i]; d.Example != "" {
			of[hashOf(d.Example)] = append(of[hashOf(d.Example)], d)
		}
	}
	for i := range r.table.Entries {
		e := &r.table.Entries[i]
		for _, d := range of[e.Example] {
			if d.Builder != "" && r.table.Builders[e.Builder] != d.Builder {
				continue
			}
			reason, gone := r.decision(uint64(i)).Reason()
			if decides := d.Stage == ledger.Gate || d.Stage == ledger.Curate; decides && (!gone || reason != d.Reason) {
				continue
			}
			if d.Records++; d.Record == 0 {
				d.Record = uint64(i) + 1
			}
		}
	}
}

const maxBody = 16 << 10

func (r *Run) mark(req *http.Request) (answer, error) {
	if r.unmarked != "" {
		return nil, badQuery{errors.New(r.unmarked)}
	}
	var m marks.Mark
	d := json.NewDecoder(http.MaxBytesReader(nil, req.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return nil, badQuery{fmt.Errorf("invalid mark: %w", err)}
	}
	return m, r.marks.Put(m)
}

// encode encodes a response, or an error that the page shows.
func encode(a answer, err error) (code int, body []byte) {
	code = http.StatusOK
	if err != nil {
		code = statusOf(err)
		a = map[string]string{"error": text(err.Error())}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(true)
	if err := e.Encode(a); err != nil {
		return http.StatusInternalServerError, []byte(`{"error":"cannot encode the response"}`)
	}
	return code, b.Bytes()
}

func statusOf(err error) int {
	switch {
	case errors.As(err, new(badQuery)), errors.As(err, new(marks.InvalidError)):
		return http.StatusBadRequest
	case errors.As(err, new(notFound)), errors.Is(err, tokenview.ErrNoRow), errors.Is(err, fs.ErrNotExist):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
