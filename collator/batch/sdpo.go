package batch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/tensors"
	"github.com/nat-go/nat-go/ttc/chat"
)

// RowSite is an error site in an sdpo row. The first side of an sdpo row is the student's, and the others are its
// teachers'. A teacher's side consists of the student's tokens up to the end of the teacher's targets, with hints
// spliced in.
type RowSite struct {
	Site       int    `json:"site"` // index in the record's sites
	HintSHA256 string `json:"hint_sha256"`
	Kind       string `json:"kind"`   // knowable, hindsight
	Class      string `json:"class"`  // class of the error
	Source     string `json:"source"` // source of the hint
	Target     string `json:"target"` // failed_turn, next_turn
	// Mode is how the hint is placed in the context: system, user, append, line, prepend, lead or below; or NoHint in a
	// control run.
	Mode    string `json:"mode"`
	Teacher int    `json:"teacher"`
	At      int32  `json:"at"`   // the hint precedes the student's token with this index
	Hint    int32  `json:"hint"` // number of tokens in the hint; 0 if and only if Mode is NoHint
	// Neutral holds the tokens that a neutral hint would have in this hint's place.
	Neutral []int32 `json:"neutral,omitempty"`
	// Contrast holds the tokens that a wrong hint, the one for another of the task's sites, would have in this hint's
	// place.
	Contrast []int32     `json:"contrast,omitempty"`
	Pairs    []chat.Span `json:"pairs"` // the target's tokens, as positions in the student
	// Weight is the weight of each pair, if it differs from the row's.
	Weight float32 `json:"weight,omitempty"`
}

// Tokens returns the number of tokens in Pairs, which is the number of pairs.
func (s *RowSite) Tokens() int { return tokens(s.Pairs) }

// PairWeight returns the weight of each of the site's pairs, in a row with the given weight.
func (s *RowSite) PairWeight(row float32) float32 {
	if s.Weight > 0 {
		return s.Weight
	}
	return row
}

// NoHint is the mode of a site whose hint was deliberately omitted, so that its teacher has the student's tokens.
const NoHint = "none"

// sound reports whether the hint has tokens exactly when its mode requires them.
func (s *RowSite) sound() bool { return s.Hint > 0 != (s.Mode == NoHint) && s.Hint >= 0 }

// shift returns the number of hint tokens in a teacher before the student's token at a position.
func (r *Row) shift(teacher, at int) (by int) {
	for i := range r.Meta.Sites {
		if s := &r.Meta.Sites[i]; s.Teacher == teacher && int(s.At) <= at {
			by += int(s.Hint)
		}
	}
	return by
}

// seqs returns the sequences on one side of the batch. There is one per row, except that all of an sdpo row's teachers
// are included.
func seqs(c *Channel, rows []*Row, side int) (out []*Side) {
	for _, r := range rows {
		if c == SDPO && side == 1 {
			for k := range r.Sides[1:] {
				out = append(out, &r.Sides[1+k])
			}
			continue
		}
		out = append(out, &r.Sides[side])
	}
	return out
}

// sitesOf lists a batch's sites. pair_site holds positions in this list.
func sitesOf(rows []*Row) []Site {
	out := []Site{}
	for _, r := range rows {
		for _, s := range r.Meta.Sites {
			out = append(out, Site{
				Record: r.Meta.rollout(), Example: r.Meta.Example, Site: s.Site, HintSHA256: s.HintSHA256,
				Kind: s.Kind, Class: s.Class,
			})
		}
	}
	return out
}

// sitePairs makes the pair table or, in the composer layout, a mask over the positions of the teacher's logits.
func sitePairs(dst []tensors.Tensor, a *assembly) []tensors.Tensor {
	if a.layout == Composer {
		dst = append(dst, a.lossMask())
		if a.form.ResponseMask {
			dst = append(dst, a.ownTurns())
		}
		return dst
	}
	type pair struct {
		row, pos, teacher, at, id, site int64
		weight                          float32
	}
	var pairs []pair
	site, teacher := int64(0), int64(0)
	for i, r := range a.rows {
		for k := range r.Meta.Sites {
			s := &r.Meta.Sites[k]
			for _, run := range s.Pairs {
				for p := run.Start; p < run.End; p++ {
					at := int64(p+r.shift(s.Teacher, p)) - 1
					pairs = append(pairs, pair{
						row: int64(i), pos: int64(p) - 1, teacher: teacher + int64(s.Teacher), at: at,
						id: int64(r.Sides[0].IDs[p]), site: site, weight: s.PairWeight(r.Weight),
					})
				}
			}
			site++
		}
		teacher += int64(len(r.Sides) - 1)
	}
	slices.SortStableFunc(pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.row, y.row), cmp.Compare(x.pos, y.pos), cmp.Compare(x.site, y.site))
	})
	column := func(name string, of func(pair) int64) {
		dst = append(dst, tensors.Of(name, lists.Map(pairs, of), len(pairs)))
	}
	column("pair_student_row", func(p pair) int64 { return p.row })
	column("pair_student_pos", func(p pair) int64 { return p.pos })
	column("pair_teacher_row", func(p pair) int64 { return p.teacher })
	column("pair_teacher_pos", func(p pair) int64 { return p.at })
	column("pair_target_id", func(p pair) int64 { return p.id })
	column("pair_site", func(p pair) int64 { return p.site })
	weights := lists.Map(pairs, func(p pair) float32 { return p.weight })
	return append(dst, tensors.Of("pair_weight", weights, len(weights)))
}

// lossMask returns a mask that is 1 at the positions where the teacher's logits predict a target.
func (a *assembly) lossMask() tensors.Tensor {
	off := int64(0)
	if a.form.SignedMask {
		off = a.form.ignored()
	}
	return a.maskGrid(lossMask, 1, 1, off)
}

// ownTurns returns a mask that is 1 at the student's tokens that the model wrote in this rollout, whether or not they
// are targets.
func (a *assembly) ownTurns() tensors.Tensor {
	next := 0
	return a.grid("response_mask", 0, 0, func(cells []int64, _ *Side) {
		from := 0
		if proof := a.rows[next].Meta.Proof; len(proof) > 0 {
			for _, o := range proof[0].Owners {
				if o.Why == InLoss || o.Why == Policy || o.Why == OtherRow {
					for i := from; i < min(o.End, len(cells)); i++ {
						cells[i] = 1
					}
				}
				from = o.End
			}
		}
		next++
	})
}

// Splices checks that every teacher consists of the student's tokens with hints in between, that pairs are within both
// sides, and that no target sees the hint for a later one.
func (r *Row) Splices() error {
	student := r.Sides[0].IDs
	for k := range r.Sides[1:] {
		ids := r.Sides[1+k].IDs
		at, from := 0, int32(0)
		sites := r.teacherSites(k)
		for _, s := range sites {
			n := int(s.At - from)
			if s.At < from || s.At < 1 || !s.sound() || at+n+int(s.Hint) > len(ids) || int(s.At) > len(student) ||
				!slices.Equal(ids[at:at+n], student[from:s.At]) {
				return fmt.Errorf("mismatched teacher %d: without the hint of site %d, it does not "+
					"equal the student", k, s.Site)
			}
			at, from = at+n+int(s.Hint), s.At
		}
		if rest := ids[at:]; len(sites) == 0 || int(from)+len(rest) > len(student) ||
			!slices.Equal(rest, student[from:int(from)+len(rest)]) {
			return fmt.Errorf("mismatched teacher %d: without its hints, it does not equal the student", k)
		}
		for _, s := range sites {
			for _, p := range s.Pairs {
				if p.Start < int(s.At) || p.Start >= p.End ||
					p.End > len(student) || p.End+r.shift(k, p.End-1) > len(ids) {
					return fmt.Errorf("invalid site %d: target %d-%d is before its hint or beyond the "+
						"row", s.Site, p.Start, p.End)
				}
			}
		}
		if err := inTurn(sites); err != nil {
			return fmt.Errorf("teacher %d: %w", k, err)
		}
	}
	return nil
}

// inTurn checks that none of a teacher's hints precedes the end of an earlier target. sites are in hint order. A site
// without pairs shares its target with an earlier site.
func inTurn(sites []RowSite) error {
	end, of := 0, 0
	for _, s := range sites {
		if len(s.Pairs) == 0 {
			continue
		}
		if int(s.At) < end {
			return fmt.Errorf("invalid hint: the target of site %d sees the hint of site %d, which is for another "+
				"turn", of, s.Site)
		}
		end, of = s.Pairs[len(s.Pairs)-1].End, s.Site
	}
	return nil
}

// teacherSites returns the sites of a teacher, by position.
func (r *Row) teacherSites(teacher int) (out []RowSite) {
	for _, s := range r.Meta.Sites {
		if s.Teacher == teacher {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b RowSite) int { return int(a.At - b.At) })
	return out
}

// TrainSites derives the trained positions of an sdpo row's sides from its sites, which Splices has accepted.
func (r *Row) TrainSites() {
	on := make([][]int64, len(r.Sides))
	for k := range r.Sides {
		on[k] = make([]int64, len(r.Sides[k].IDs))
	}
	for _, s := range r.Meta.Sites {
		for _, run := range s.Pairs {
			for p := run.Start; p < run.End; p++ {
				on[0][p] = 1
				on[1+s.Teacher][p+r.shift(s.Teacher, p)] = 1
			}
		}
	}
	for k := range r.Sides {
		r.Sides[k].Trained = runs(on[k], 0)
	}
}

// unpackSites rebuilds the rows of an sdpo batch.
func unpackSites(r *reader, l *Line, rows []*Row) error {
	student, err := sequences(r, l, "student_")
	if err != nil {
		return err
	}
	teachers, err := sequences(r, l, "teacher_")
	if err != nil {
		return err
	}
	if len(student) != len(rows) {
		return fmt.Errorf("mismatched rows: student_input_ids has %d, row_weight %d", len(student), len(rows))
	}
	next := 0
	for i, row := range rows {
		n := 0
		for _, s := range row.Meta.Sites {
			if s.Teacher < 0 || s.Teacher > n {
				return fmt.Errorf("invalid row_info %d: teachers are not numbered in order", i)
			}
			n = max(n, s.Teacher+1)
			if slices.ContainsFunc(s.Contrast, func(id int32) bool { return id < 0 || int64(id) >= l.VocabSize }) {
				return fmt.Errorf("invalid row_info %d: the contrast of site %d has an id outside the "+
					"vocabulary", i, s.Site)
			}
		}
		if n == 0 || next+n > len(teachers) {
			return fmt.Errorf("mismatched teachers: row_info %d has %d, the whole file has %d", i, n, len(teachers))
		}
		row.Sides = append([]Side{student[i]}, teachers[next:next+n]...)
		next += n
		if r.layout == Composer {
			if err := endTogether(row, l.Form); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
		if err := row.Splices(); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
		row.TrainSites()
		if row.active() == 0 {
			return fmt.Errorf("no active token in row %d", i)
		}
	}
	if next != len(teachers) {
		return fmt.Errorf("mismatched teachers: the file has %d, row_info has %d", len(teachers), next)
	}
	return nil
}

// sequences reads a side's ids where its mask is 1.
func sequences(r *reader, l *Line, prefix string) ([]Side, error) {
	ids, shape := items[int64](r, prefix+"input_ids", 2)
	mask, _ := items[int64](r, prefix+"attention_mask", 2)
	if r.err != nil {
		return nil, r.err
	}
	if len(mask) != len(ids) {
		return nil, fmt.Errorf("mismatched sizes of %sinput_ids and its mask", prefix)
	}
	if shape[0] > len(ids) { // a small file could declare any number of rows without cells
		return nil, fmt.Errorf("invalid %sinput_ids: got shape %v, expected tokens in each row", prefix, shape)
	}
	out := make([]Side, shape[0])
	for i := range out {
		start, end := i*shape[1], (i+1)*shape[1]
		var err error
		if out[i].IDs, err = l.rowIDs(prefix, i, ids[start:end], mask[start:end]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
