package tokenview

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/internal/terminal"
)

// Site is an error site of a batch, with the student's and a teacher's tokens aligned. It marshals to the output of
// `dataset show --site N --json`.
type Site struct {
	File       string        `json:"file"`
	Example    string        `json:"example"`
	StudentRow int           `json:"student_row"` // index of the row in student_input_ids
	TeacherRow int           `json:"teacher_row"` // index of the row in teacher_input_ids
	Site       batch.RowSite `json:"site"`
	OnPolicy   string        `json:"on_policy"`
	Effect     *batch.Effect `json:"effect,omitempty"` // the effect of the hint, if measured
	Parts      []Part        `json:"parts"`
}

// Part is a run of tokens that is in both rows or only in the teacher's.
type Part struct {
	What    string   `json:"what"`    // context, hint, target
	Student [2]int   `json:"student"` // positions, end exclusive; -1, -1 for a hint
	Teacher [2]int   `json:"teacher"`
	Tokens  []string `json:"tokens"`

	// JSD is set for a target if it was measured: the divergence between the predictions of each token with and without
	// the hint, in nats.
	JSD []float32 `json:"jsd,omitempty"`
}

// Values of Part.What.
const (
	Context = "context"
	Hint    = "hint"
	Target  = "target"
)

// shown is the smallest divergence, in nats, that is printed next to a token.
const shown = 0.01

// siteContext is the number of tokens shown before the hint.
const siteContext = 40

// ReadSite reads the nth site in a run folder's sdpo batches, in index order, counted from 1.
func ReadSite(dir string, n int, tok *tokenizer.Tokenizer) (*Site, error) {
	seen, left := 0, n-1
	found, rows, err := open(dir, tok, func(l *batch.Line) bool {
		if left >= 0 && left < len(l.Sites) {
			return true
		}
		left, seen = left-len(l.Sites), seen+len(l.Sites)
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("unknown site %d: the run has %d, numbered from 1", n, seen)
	}
	effect := found.Sites[left].Effect
	jsd, err := divergences(filepath.Join(dir, "batches"), found, left)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", found.File, err)
	}
	teacher := 0
	for i, r := range rows {
		if left < len(r.Meta.Sites) {
			v := &Site{
				File:       found.File,
				Example:    r.Meta.Example,
				Site:       r.Meta.Sites[left],
				OnPolicy:   r.Meta.OnPolicy,
				Effect:     effect,
				StudentRow: i,
				TeacherRow: teacher + r.Meta.Sites[left].Teacher,
			}
			return v, v.fill(r, tok, jsd)
		}
		left -= len(r.Meta.Sites)
		teacher += len(r.Sides) - 1
	}
	return nil, fmt.Errorf("%s: invalid line: it lists a site that isn't in any row", found.File)
}

// divergences returns the divergences of a site's pairs, in order, or nil if the batch lacks divergences.
func divergences(dir string, l *batch.Line, site int) (jsd []float32, err error) {
	file, err := tensors.OpenFile(filepath.Join(dir, filepath.FromSlash(l.File)))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	file.Limit = batch.MaxFileBytes
	if _, ok := file.Lookup(batch.PairJSD); !ok {
		return nil, nil
	}
	column, err := file.Read(batch.PairJSD)
	if err != nil {
		return nil, err
	}
	all, err := tensors.Items[float32](column)
	if err != nil {
		return nil, err
	}
	if column, err = file.Read("pair_site"); err != nil {
		return nil, err
	}
	sites, err := tensors.Items[int64](column)
	for i := range min(len(sites), len(all)) {
		if sites[i] == int64(site) {
			jsd = append(jsd, all[i])
		}
	}
	return jsd, err
}

// fill sets the site's parts.
func (v *Site) fill(r *batch.Row, tok *tokenizer.Tokenizer, jsd []float32) error {
	s := &v.Site
	ids := r.Sides[1+s.Teacher].IDs
	by := 0 // tokens of earlier hints, which only the teacher's row has
	for _, o := range r.Meta.Sites {
		if o.Teacher == s.Teacher && o.At < s.At {
			by += int(o.Hint)
		}
	}
	var err error
	add := func(what string, from, to int) {
		if from == to {
			return
		}
		p := Part{What: what, Student: [2]int{from - by, to - by}, Teacher: [2]int{from, to}}
		if what == Hint {
			p.Student = [2]int{-1, -1}
		}
		for _, id := range ids[from:to] {
			text, failed := tok.Decode([]int32{id}, false)
			err = cmp.Or(err, failed)
			p.Tokens = append(p.Tokens, text)
		}
		if n := min(len(p.Tokens), len(jsd)); what == Target {
			p.JSD, jsd = jsd[:n:n], jsd[n:]
		}
		v.Parts = append(v.Parts, p)
	}
	at := int(s.At) + by
	add(Context, max(0, at-siteContext), at)
	add(Hint, at, at+int(s.Hint))
	at += int(s.Hint)
	for _, o := range r.Meta.Sites { // other hints at the same position
		if o.Teacher == s.Teacher && o.At == s.At && o.Site > s.Site {
			add(Hint, at, at+int(o.Hint))
			at += int(o.Hint)
		}
	}
	by = at - int(s.At)
	for _, run := range s.Pairs {
		add(Context, at, run.Start+by)
		add(Target, run.Start+by, run.End+by)
		at = run.End + by
	}
	return err
}

// Print writes a site as text: student and teacher aligned, the hint marked with + (yellow), the target with > (green).
// Positions are token positions; the logits that predict a token are one position earlier.
func (v *Site) Print(w io.Writer, l Look) error {
	out := &printer{w: terminal.For(w), Look: l}
	wording := "placed as " + v.Site.Mode
	if v.Site.Mode == batch.NoHint {
		wording = "omitted, like all hints in this run"
	}
	out.words("", fmt.Sprintf("%s: example %s, site %d of its record: %s, target %s, %s hint from %s, %s, on_policy %s",
		v.File, v.Example, v.Site.Site+1, v.Site.Class, v.Site.Target, v.Site.Kind, v.Site.Source, wording, v.OnPolicy))
	out.printf("student row %d, teacher row %d\n", v.StudentRow+1, v.TeacherRow+1)
	if e := v.Effect; e != nil {
		out.words("", fmt.Sprintf("the hint moves the predictions by %s on average (JSD) and the target by %+.4g "+
			"nats per token", e.Amount(), e.Target))
	}
	out.printf("\n  %-11s  %-11s\n", "student", "teacher")
	for i := range v.Parts {
		out.part(&v.Parts[i])
	}
	return out.err
}

func (p *printer) part(part *Part) {
	span := func(p [2]int) string {
		if p[0] < 0 {
			return ""
		}
		return fmt.Sprintf("%5d-%-5d", p[0], p[1]-1)
	}
	var texts []string
	for i, t := range part.Tokens {
		if t = visible(t); i < len(part.JSD) && part.JSD[i] >= shown {
			t = fmt.Sprintf("%s{%.2g}", t, part.JSD[i])
		}
		texts = append(texts, t)
	}
	mark, colour := " ", dim
	switch part.What {
	case Hint:
		mark, colour = "+", yellow
	case Target:
		mark, colour = ">", green
	}
	head := fmt.Sprintf("%s %-11s  %-11s  ", mark, span(part.Student), span(part.Teacher))
	p.tokens(head, texts, colour, mark != " ")
}
