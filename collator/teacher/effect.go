package teacher

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Direction says which way a good hint moves the target tokens.
type Direction int

// The directions.
const (
	Lower  Direction = -1 // failed_turn: the failed turn becomes less likely
	Higher Direction = +1 // next_turn: the next turn becomes more likely
)

// Probed is a site whose hint is tried out: its student row, and the same row with the hint, or a neutral one, spliced in.
type Probed struct {
	Student, Teacher []int32
	Control          []int32 // nil: no control
	Targets          []int   // positions in Student of the target tokens, ascending, none of them 0
	Direction        Direction
}

// Effect is what a hint does to the target tokens: the mean over them of log p(y | hint) - log p(y).
type Effect struct {
	Hint    float64
	Control float64 // of the neutral hint; 0 without
}

// Net is the hint's effect beyond that of any text in its place.
func (e Effect) Net() float64 { return e.Hint - e.Control }

// Judge gives the reason for which a site is dropped, or none: the hint has to move its targets the right way, by at least
// least nats a token more than the neutral one.
func (e Effect) Judge(d Direction, least float64) ledger.Reason {
	switch net := float64(d) * e.Net(); {
	case net >= least && net > 0:
		return ""
	case net <= -least && net < 0:
		return ledger.HintWrongWay
	default:
		return ledger.HintNoEffect
	}
}

// Outcome is the effect measured at a site, or a reason and an error.
type Outcome struct {
	Effect Effect
	Reason ledger.Reason
	Err    error
}

// Effects measures hints: two or three sequences a site are scored. What could not be scored has a reason of its own;
// the others are judged with least nats a token.
func (c *Client) Effects(ctx context.Context, sites []Probed, least float64) ([]Outcome, error) {
	out := make([]Outcome, len(sites))
	type part struct{ site, shift, kind int }
	var parts []part
	var ask []Sequence
	for i, s := range sites {
		if len(s.Targets) == 0 || s.Targets[0] < 1 || s.Targets[len(s.Targets)-1] >= len(s.Student) || !slices.IsSorted(s.Targets) {
			return nil, fmt.Errorf("site %d: the targets are no positions of the row after its first", i)
		}
		for kind, ids := range [][]int32{s.Student, s.Teacher, s.Control} {
			if kind == 2 && ids == nil {
				continue
			}
			shift := len(ids) - len(s.Student)
			if !sameTargets(s, ids, shift) {
				return nil, fmt.Errorf("site %d: the targets are not the same tokens in the row with the hint", i)
			}
			parts = append(parts, part{i, shift, kind})
			ask = append(ask, Sequence{ids, s.Targets[0] + shift - 1})
		}
	}
	results, err := c.ScoreAll(ctx, ask)
	if err != nil {
		return nil, err
	}
	means := make([][3]float64, len(sites))
	for k, p := range parts {
		o := &out[p.site]
		if r := results[k]; r.Err != nil {
			o.Reason, o.Err = r.Reason, r.Err
		} else if means[p.site][p.kind], err = mean(r.Scores, sites[p.site].Targets, p.shift); err != nil {
			o.Reason, o.Err = ledger.TeacherBadAnswer, err
		}
	}
	for i := range out {
		if o := &out[i]; o.Err == nil {
			o.Effect.Hint = means[i][1] - means[i][0]
			if sites[i].Control != nil {
				o.Effect.Control = means[i][2] - means[i][0]
			}
			o.Reason = o.Effect.Judge(sites[i].Direction, least)
		}
	}
	return out, nil
}

func sameTargets(s Probed, ids []int32, shift int) bool {
	for _, t := range s.Targets {
		if at := t + shift; at < 1 || at >= len(ids) || ids[at] != s.Student[t] {
			return false
		}
	}
	return true
}

// mean is the mean log-prob of target tokens.
func mean(s *Scores, targets []int, shift int) (float64, error) {
	sum := 0.0
	for _, t := range targets {
		lp := float64(s.Token[t+shift-1])
		if math.IsNaN(lp) {
			return 0, bad("it doesn't say how likely the token at %d is", t+shift)
		}
		sum += lp
	}
	return sum / float64(len(targets)), nil
}

// Control is the teacher's row with a neutral text in place of the hint. It is an error if the teacher's row is not the
// student's with one hint spliced in before position before (the first target).
func Control(student, teacher, neutral []int32, before int) ([]int32, error) {
	n := len(teacher) - len(student)
	at := 0
	for n > 0 && at < min(before, len(student)) && student[at] == teacher[at] {
		at++
	}
	if n < 1 || !slices.Equal(student[at:], teacher[at+n:]) {
		return nil, fmt.Errorf("the teacher's row is not the student's with a hint spliced in before position %d", before)
	}
	return slices.Concat(student[:at], neutral, student[at:]), nil
}

// Sites lists the sites of a batch as they are to be probed, by site number: one hint each. kind says which way a site's
// hint has to work; sites whose teacher row holds more than their hint (cumulative batches) can't be told apart and are an
// error.
func (p *Pairs) Sites(direction func(site int64) Direction, neutral []int32) (map[int64]Probed, error) {
	out := map[int64]Probed{}
	rows := map[int64][2]int64{}
	for i, site := range p.Site {
		s, ok := out[site]
		row := [2]int64{p.StudentRow[i], p.TeacherRow[i]}
		if ok && rows[site] != row {
			return nil, fmt.Errorf("pair %d: site %d lies in more than one row", i, site)
		}
		if !ok {
			rows[site] = row
			s = Probed{Student: p.Student[row[0]], Teacher: p.Teacher[row[1]], Direction: direction(site)}
		}
		s.Targets = append(s.Targets, int(p.StudentPos[i])+1)
		out[site] = s
	}
	for site, s := range out {
		// Rows end at the target's last token in per-site batches; the student's may go on where sites share it.
		r := rows[site]
		last := s.Targets[len(s.Targets)-1]
		s.Student = s.Student[:last+1]
		shift := int(p.TeacherPos[slices.Index(p.Site, site)] - p.StudentPos[slices.Index(p.Site, site)])
		s.Teacher = p.Teacher[r[1]][:last+1+shift]
		if neutral != nil {
			var err error
			if s.Control, err = Control(s.Student, s.Teacher, neutral, s.Targets[0]); err != nil {
				return nil, fmt.Errorf("site %d: %w", site, err)
			}
		}
		out[site] = s
	}
	return out, nil
}
