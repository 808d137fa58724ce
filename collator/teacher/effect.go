package teacher

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Direction is the direction in which a good hint moves the target tokens.
type Direction int

// The directions.
const (
	lower  Direction = -1 // failed_turn: the failed turn becomes less likely
	higher Direction = +1 // next_turn: the next turn becomes more likely
)

// Probed holds the rows needed to measure a site's hint: the student row, the same row with the hint spliced in, and
// optionally the same row with a neutral hint. Rows end at the last target.
type Probed struct {
	Student, Teacher []int32
	Control          []int32 // the row with the neutral hint; may be nil
	Targets          []int   // positions of the target tokens in Student, ascending, none of them 0
	Direction        Direction
}

// Measure configures how hints are measured.
type Measure struct {
	Least    float64 // nats per token by which a hint must beat the neutral one
	LeastJSD float64 // a site whose divergence is known to be lower gets weight 0; 0 means no limit
}

// Measured counts the outcomes of measuring hints.
type Measured struct {
	Sites   int     `json:"sites"`       // sites for which a measurement was attempted
	Neutral int     `json:"neutral"`     // sites among them that have a neutral hint
	Mean    float64 `json:"mean_effect"` // mean of Effect.Net, in nats per token, in the right direction
	// lower and upper bounds on the divergence, derived from the best k tokens and averaged over the measured sites
	Lower float64 `json:"mean_jsd_lower"`
	Upper float64 `json:"mean_jsd_upper"`
	Below int     `json:"below,omitempty"` // sites known to have a divergence below LeastJSD, even if already dropped
	Open  int     `json:"open,omitempty"`  // undecided sites, whose bracket contains LeastJSD

	sum [3]float64 // sums for Mean, Lower, Upper
	n   int
}

// Effect is a hint's effect on the target tokens: log p(y | hint) - log p(y), averaged over the tokens.
type Effect struct {
	Hint    float64
	Control float64 // effect of the neutral hint; 0 without one

	Lower, Upper float64 // bounds on the divergence, averaged over the targets
}

// Net returns the hint's effect minus the neutral hint's.
func (e Effect) Net() float64 { return e.Hint - e.Control }

// Judge returns the reason for dropping a site, or an empty string if the hint moves its targets in the right direction
// by at least minNet nats per token more than the neutral one does.
func (e Effect) Judge(d Direction, minNet float64) ledger.Reason {
	switch net := float64(d) * e.Net(); {
	case net >= minNet && net > 0:
		return ""
	case net <= -minNet && net < 0:
		return hintWrongWay
	default:
		return HintNoEffect
	}
}

// Outcome is the effect measured at a site, or a reason and an error.
type Outcome struct {
	Effect Effect
	Reason ledger.Reason
	Err    error
}

// Effects measures hints by scoring two or three sequences per site. If a sequence could not be scored, its site's
// outcome gives the reason; other sites are judged against minNet, in nats per token.
func (c *Client) Effects(ctx context.Context, sites []Probed, minNet float64) ([]Outcome, error) {
	out := make([]Outcome, len(sites))
	type part struct{ site, shift, kind int }
	var parts []part
	var ask []Sequence
	for i, s := range sites {
		if len(s.Targets) == 0 || s.Targets[0] < 1 || s.Targets[len(s.Targets)-1] >= len(s.Student) ||
			!slices.IsSorted(s.Targets) {
			return nil, fmt.Errorf("site %d: invalid targets: expected ascending row positions above 0", i)
		}
		for kind, ids := range [][]int32{s.Student, s.Teacher, s.Control} {
			if kind == 2 && ids == nil {
				continue
			}
			shift := len(ids) - len(s.Student)
			if !sameTargets(s, ids, shift) {
				return nil, fmt.Errorf("site %d: mismatched targets: expected the same tokens in the row with the "+
					"hint", i)
			}
			parts = append(parts, part{i, shift, kind})
			ask = append(ask, Sequence{IDs: ids, From: s.Targets[0] + shift - 1})
		}
	}
	results, err := c.ScoreAll(ctx, ask)
	if err != nil {
		return nil, err
	}
	means := make([][3]float64, len(sites))
	scores := make([][3]*Scores, len(sites))
	for k, p := range parts {
		o := &out[p.site]
		scores[p.site][p.kind] = results[k].Scores
		if r := results[k]; r.Err != nil {
			o.Reason, o.Err = r.Reason, r.Err
		} else if means[p.site][p.kind], err = mean(r.Scores, sites[p.site].Targets, p.shift); err != nil {
			o.Reason, o.Err = TeacherBadAnswer, err
		}
	}
	for i := range out {
		if o := &out[i]; o.Err == nil {
			o.Effect.Hint = means[i][1] - means[i][0]
			if sites[i].Control != nil {
				o.Effect.Control = means[i][2] - means[i][0]
			}
			o.Effect.Lower, o.Effect.Upper = sites[i].bracket(scores[i][0], scores[i][1])
			o.Reason = o.Effect.Judge(sites[i].Direction, minNet)
		}
	}
	return out, nil
}

// bracket returns the mean bracket over the targets.
func (s *Probed) bracket(student, teacher *Scores) (lower, upper float64) {
	shift := len(s.Teacher) - len(s.Student)
	for _, t := range s.Targets {
		lo, up := bracket(student.known(t-1, s.Student[t]), teacher.known(t+shift-1, s.Student[t]))
		lower, upper = lower+lo, upper+up
	}
	n := float64(len(s.Targets))
	return lower / n, upper / n
}

func sameTargets(s Probed, ids []int32, shift int) bool {
	return !slices.ContainsFunc(s.Targets, func(t int) bool {
		at := t + shift
		return at < 1 || at >= len(ids) || ids[at] != s.Student[t]
	})
}

// mean returns the mean log-prob of the target tokens.
func mean(s *Scores, targets []int, shift int) (float64, error) {
	sum := 0.0
	for _, t := range targets {
		lp := float64(s.Token[t+shift-1])
		if math.IsNaN(lp) {
			return 0, bad("missing log-prob of the token at position %d", t+shift)
		}
		sum += lp
	}
	return sum / float64(len(targets)), nil
}

// measure measures the hints of a batch's remaining sites, and drops the sites that can't be measured or that judge
// rejects.
func (c *Client) measure(ctx context.Context, b *batchWork, m *Measure, rep *Measured) error {
	probed, err := b.probes()
	if err != nil {
		return err
	}
	var sites []int64
	var ask []Probed
	for _, site := range b.sites {
		if p, ok := probed[site]; ok && b.in(site) {
			sites, ask = append(sites, site), append(ask, p)
		}
	}
	outcomes, err := c.Effects(ctx, ask, m.Least)
	if err != nil {
		return err
	}
	for i := range outcomes {
		rep.enter(&ask[i], &outcomes[i])
		if reason, detail := m.judge(&outcomes[i], rep); reason != "" {
			b.lose(sites[i], reason, detail)
		}
		if o := &outcomes[i]; o.Err == nil {
			b.line.Sites[sites[i]].Effect = &batch.Effect{
				Route:  "top_k",
				Lower:  o.Effect.Lower,
				Upper:  o.Effect.Upper,
				Target: o.Effect.Hint,
			}
		}
	}
	return nil
}

func (m *Measured) enter(p *Probed, o *Outcome) {
	m.Sites++
	if p.Control != nil {
		m.Neutral++
	}
	if o.Err != nil {
		return
	}
	m.n++
	for i, x := range [3]float64{float64(p.Direction) * o.Effect.Net(), o.Effect.Lower, o.Effect.Upper} {
		m.sum[i] += x
	}
	n := float64(m.n)
	m.Mean, m.Lower, m.Upper = m.sum[0]/n, m.sum[1]/n, m.sum[2]/n
}

// judge returns the reason for dropping a site, and the details. The reason is empty if the site is kept.
func (m *Measure) judge(o *Outcome, rep *Measured) (reason ledger.Reason, detail string) {
	if o.Err != nil {
		return o.Reason, o.Err.Error()
	}
	e := &o.Effect
	switch {
	case m.LeastJSD == 0 || e.Lower >= m.LeastJSD:
	case e.Upper < m.LeastJSD:
		rep.Below++
		if o.Reason == "" {
			return siteBelowJSD, fmt.Sprintf("the site's mean divergence is at most %.3g nats; min_jsd is %.3g",
				e.Upper, m.LeastJSD)
		}
	default:
		rep.Open++
	}
	return o.Reason, fmt.Sprintf("the hint changes the target by %+.4f nats per token, a neutral one by %+.4f",
		e.Hint, e.Control)
}

// probes returns the batch's sites for measurement, each with a single hint, even if the teacher's row has several. A
// site whose hint is the second for its turn has no pairs, so it isn't measured.
func (b *batchWork) probes() (map[int64]Probed, error) {
	out := map[int64]Probed{}
	site, teacher := int64(0), 0
	for r := range b.line.RowInfo {
		sites := b.line.RowInfo[r].Sites
		teachers := 0
		for k := range sites {
			s := &sites[k]
			teachers = max(teachers, s.Teacher+1)
			if len(s.Pairs) > 0 {
				p, err := b.probe(r, teacher+s.Teacher, s, hintStart(sites, k))
				if err != nil {
					return nil, fmt.Errorf("site %d: %w", site, err)
				}
				out[site] = p
			}
			site++
		}
		teacher += teachers
	}
	return out, nil
}

// hintStart returns the position at which the hint of site k begins in its teacher's row.
func hintStart(sites []batch.RowSite, k int) int {
	at := int(sites[k].At)
	for i := range sites {
		s := &sites[i]
		if s.Teacher == sites[k].Teacher && (s.At < sites[k].At || s.At == sites[k].At && i < k) {
			at += int(s.Hint)
		}
	}
	return at
}

func (b *batchWork) probe(row, teacher int, s *batch.RowSite, start int) (Probed, error) {
	p := Probed{Direction: direction(s)}
	end := s.Pairs[len(s.Pairs)-1].End
	for _, run := range s.Pairs {
		if run.Start < 0 || run.Start >= run.End || run.End > end || row >= len(b.pairs.Student) ||
			end > len(b.pairs.Student[row]) {
			return p, fmt.Errorf("invalid index: the target's tokens %d to %d are not in the batch", run.Start,
				run.End)
		}
		for t := run.Start; t < run.End; t++ {
			p.Targets = append(p.Targets, t)
		}
	}
	if teacher >= len(b.pairs.Teacher) || s.At < 0 || int(s.At) > end || s.Hint < 0 || start < 0 ||
		start+int(s.Hint) > len(b.pairs.Teacher[teacher]) {
		return p, fmt.Errorf("invalid index: the hint at %d or the target's end at %d is not in the batch", s.At,
			end)
	}
	p.Student = b.pairs.Student[row][:end]
	with := func(ids []int32) []int32 { return slices.Concat(p.Student[:s.At], ids, p.Student[s.At:]) }
	p.Teacher = with(b.pairs.Teacher[teacher][start : start+int(s.Hint)])
	if s.Neutral != nil {
		p.Control = with(s.Neutral)
	}
	return p, nil
}
