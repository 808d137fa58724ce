package view

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenview"
)

// batchRow is a row of the token batches, as listed.
type batchRow struct {
	Ref     string `json:"ref"`
	Channel string `json:"channel"`
	Split   string `json:"split"`
	Example string `json:"example"`
	Record  int64  `json:"record"` // record number, starting at 1
	Sites   int    `json:"sites"`
}

// batchRows is a window of batch rows.
type batchRows struct {
	Total int        `json:"total"`
	Rows  []batchRow `json:"rows"`
}

func (r *Run) batchRows(req *http.Request) (answer, error) {
	q := req.URL.Query()
	offset, limit, err := window(q.Get("offset"), q.Get("limit"), maxRows)
	if err != nil {
		return nil, err
	}
	record, _ := strconv.ParseInt(q.Get("record"), 10, 64)
	a := batchRows{Rows: []batchRow{}}
	if !dataset.HasBatches(r.Folder) {
		return a, nil
	}
	err = batch.EachLine(r.Folder.Batches()+"/"+batch.IndexName, func(l *batch.Line) error {
		if want := q.Get("channel"); want != "" && l.Channel != want {
			return nil
		}
		for i := range l.RowInfo {
			m := &l.RowInfo[i]
			if record > 0 && m.Ordinal+1 != record {
				continue
			}
			if a.Total++; a.Total > offset && len(a.Rows) < limit {
				a.Rows = append(a.Rows, batchRow{
					fmt.Sprintf("%s:%d", l.File, i+1), l.Channel, l.Split, text(m.Example), m.Ordinal + 1, len(m.Sites),
				})
			}
		}
		return nil
	})
	return a, err
}

// headAnswer describes a token row, without its tokens.
type headAnswer struct {
	File    string       `json:"file"`
	Row     int          `json:"row"`
	Channel string       `json:"channel"`
	Info    batch.Meta   `json:"info"`
	Weight  float32      `json:"weight"`
	Sides   []sideInfo   `json:"sides"`
	Shown   []int        `json:"shown"` // indices of the sides that Pieces divides
	Pieces  []tokenPiece `json:"pieces"`
	Width   int          `json:"width"` // number of tokens per window
}

type sideInfo struct {
	Name    string `json:"name"`
	Length  int    `json:"length"`
	Trained int    `json:"trained"`
	LogProb bool   `json:"log_prob"` // whether some tokens have a log-prob
	JSD     bool   `json:"jsd"`      // whether a hint's effect was measured for some tokens
}

// tokenPiece is a part of a token row, given as a span on each side shown.
type tokenPiece struct {
	What  string   `json:"what"`  // same, differs, or splice, which is only on the second side
	Spans [][2]int `json:"spans"` // one entry for each side shown
}

func (r *Run) tokenHead(req *http.Request) (answer, error) {
	q := req.URL.Query()
	v, err := r.tokenRow(q.Get("ref"))
	if err != nil {
		return nil, err
	}
	a := headAnswer{
		File: v.File, Row: v.Row, Channel: v.Channel, Info: v.Meta, Weight: v.Weight, Shown: []int{0}, Width: maxTokens,
	}
	for _, s := range v.Sides {
		info := sideInfo{Name: s.Name, Length: len(s.Tokens)}
		for i := range s.Tokens {
			if s.Tokens[i].Trained {
				info.Trained++
			}
			info.LogProb = info.LogProb || s.Tokens[i].LogProb != nil
			info.JSD = info.JSD || s.Tokens[i].JSD != nil
		}
		a.Sides = append(a.Sides, info)
	}
	if len(v.Sides) > 1 {
		beside := 1
		if text := q.Get("with"); text != "" {
			if beside, err = strconv.Atoi(text); err != nil || beside < 1 || beside >= len(v.Sides) {
				return nil, badQuery{fmt.Errorf("unknown side %q", text)}
			}
		}
		a.Shown = append(a.Shown, beside)
	}
	a.Pieces = cutPieces(aligned(v, a.Shown))
	a.Info.Proof = nil // the owners that Proof lists are sent with the tokens
	return a, nil
}

// aligned divides a row into pieces so that the parts common to its sides are shown side by side.
func aligned(v *tokenview.Row, shown []int) []tokenPiece {
	first := v.Sides[0].Tokens
	if len(shown) == 1 {
		return []tokenPiece{{"same", [][2]int{{0, len(first)}}}}
	}
	second := v.Sides[shown[1]].Tokens
	var out []tokenPiece
	a, b := 0, 0
	add := func(what string, n, m int) {
		if n > 0 || m > 0 {
			out = append(out, tokenPiece{what, [][2]int{{a, a + n}, {b, b + m}}})
			a, b = a+n, b+m
		}
	}
	if v.Channel == batch.SDPO.Name {
		sites := slices.Clone(v.Meta.Sites)
		sites = slices.DeleteFunc(sites, func(s batch.RowSite) bool { return s.Teacher != shown[1]-1 })
		slices.SortStableFunc(sites, func(x, y batch.RowSite) int { return cmp.Compare(x.At, y.At) })
		for _, s := range sites {
			add("same", int(s.At)-a, int(s.At)-a)
			add("splice", 0, int(s.Hint))
		}
		add("same", len(first)-a, len(second)-b)
		return out
	}
	common := 0
	for common < min(len(first), len(second)) && first[common].ID == second[common].ID {
		common++
	}
	end := 0
	for end < min(len(first), len(second))-common && first[len(first)-1-end].ID == second[len(second)-1-end].ID {
		end++
	}
	add("same", common, common)
	add("differs", len(first)-a-end, len(second)-b-end)
	add("same", end, end)
	return out
}

// pieceTokens is the maximum number of tokens from one side in a piece. Pieces are small because the page draws only
// nearby ones.
const pieceTokens = 256

func cutPieces(pieces []tokenPiece) (out []tokenPiece) {
	for _, p := range pieces {
		for {
			part, left := tokenPiece{What: p.What}, false
			for i, s := range p.Spans {
				end := min(s[0]+pieceTokens, s[1])
				part.Spans = append(part.Spans, [2]int{s[0], end})
				p.Spans[i][0] = end
				left = left || end < s[1]
			}
			if out = append(out, part); !left {
				break
			}
		}
	}
	return out
}

// tokensAnswer is a window of one side of a row.
type tokensAnswer struct {
	From   int               `json:"from"`
	Tokens []tokenview.Token `json:"tokens"`
}

func (r *Run) tokenWindow(req *http.Request) (answer, error) {
	q := req.URL.Query()
	from, n, err := window(q.Get("from"), q.Get("n"), maxTokens)
	if err != nil {
		return nil, err
	}
	v, err := r.tokenRow(q.Get("ref"))
	if err != nil {
		return nil, err
	}
	side, err := strconv.Atoi(cmp.Or(q.Get("side"), "0"))
	if err != nil || side < 0 || side >= len(v.Sides) {
		return nil, badQuery{fmt.Errorf("unknown side %q", q.Get("side"))}
	}
	tokens := v.Sides[side].Tokens
	from = min(from, len(tokens))
	return tokensAnswer{from, tokens[from:min(from+n, len(tokens))]}, nil
}

// tokenRow reads a token row. The most recent row is kept, because a long row is requested window by window.
func (r *Run) tokenRow(ref string) (*tokenview.Row, error) {
	if !dataset.HasBatches(r.Folder) {
		return nil, notFound{errors.New("no token batches: set collator.tokenizer to have a run write them")}
	}
	tok, err := r.tokenizer()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tokens.ref != ref || r.tokens.row == nil {
		row, err := tokenview.ReadRow(string(r.Folder), ref, tok)
		if err != nil {
			return nil, err
		}
		r.tokens.ref, r.tokens.row = ref, row
	}
	return r.tokens.row, nil
}
