package collator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// distillation makes the rows of the sdpo channel. A student row is the original rollout; teacher rows are the same
// tokens with hints spliced in. See splice.go.
func (w *worker) distillation(it *Item) outcome {
	d := it.Record.Record.(*builders.Distillation)
	nodes := it.Record.Messages.Nodes
	sp := &splicer{
		sites:   d.Sites,
		target:  make([]int, len(d.Sites)),
		refused: make([]*cause, len(d.Sites)),
		made:    map[*side]*spliced{},
	}
	m := &material{trained: make([]bool, len(nodes)), tools: it.Record.Origin.Tools, part: hintParts[w.cfg.HintSpan]}
	end := 0
	for i := range d.Sites {
		at, why := targetTurn(nodes, &d.Sites[i])
		if why == nil && !m.part.has(&nodes[at].Message) && m.part != wholeTurn {
			why = refuse(PartAbsent, "message %d lacks the part that hint_span selects", at)
		}
		if sp.target[i], sp.refused[i] = at, why; why == nil {
			m.trained[sp.target[i]] = true
			end = max(end, sp.target[i]+1)
		}
	}
	m.nodes, m.trained = nodes[:end], m.trained[:end] // a row ends with the last target
	if end == 0 {
		out := refused(refuse(ledger.NothingTrained, "no site has a target"))
		if len(d.Sites) > 0 {
			out.Refused = sp.refused[0]
		}
		return sp.account(out, nil)
	}
	rows, lost, whole := w.rollout(m, sp.fit)
	out := w.outcome(it, m, rows, lost, whole, 1)
	sp.weigh(w, rows)
	for i := range out.Rows {
		r, s := &out.Rows[i], sp.made[rows[i].side]
		r.Sides = append(r.Sides, s.teachers...)
		r.Meta.Sites = s.sites
		r.Meta.Proof = append(r.Meta.Proof, s.proofs...)
	}
	switch {
	case w.cfg.Layout != batch.Composer:
	case w.cfg.Cumulative:
		for i := range out.Rows {
			r := &out.Rows[i]
			r.Weight = r.Meta.Sites[0].PairWeight(r.Weight)
			for k := range r.Meta.Sites {
				r.Meta.Sites[k].Weight = 0
			}
		}
	default:
		if r := w.apart(&out, sp, rows); r != nil {
			return sp.account(refused(r), nil)
		}
	}
	return sp.account(out, rows)
}

// weigh sets the weight of each site's pairs. With ByToken it does nothing, because every token has weight 1. With
// BySite, if hints accumulate, a turn's second hint has no pairs, so its site keeps weight 0.
func (sp *splicer) weigh(w *worker, rows []madeSide) {
	if w.cfg.Weight == ByToken {
		return
	}
	total := 0
	for i := range rows {
		for _, s := range sp.made[rows[i].side].sites {
			total += s.Tokens()
		}
	}
	for i := range rows {
		sites := sp.made[rows[i].side].sites
		for k := range sites {
			n := total
			if w.cfg.Weight == BySite {
				n = sites[k].Tokens()
			}
			if n > 0 {
				sites[k].Weight = 1 / float32(n)
			}
		}
	}
}

// account adds the outcome of every site to the record's outcome.
func (sp *splicer) account(out outcome, rows []madeSide) outcome {
	out.Sites = len(sp.sites)
	in, taught, lost := map[int]bool{}, map[int]bool{}, map[int]bool{}
	var turns []cause
	var first *cause
	if len(out.TurnDrops) > 0 {
		first = &out.TurnDrops[0]
	}
	for i := range rows {
		for _, s := range sp.made[rows[i].side].sites {
			in[s.Site], taught[sp.target[s.Site]] = true, true
		}
	}
	for i := range sp.sites {
		if in[i] {
			continue
		}
		why := cmp.Or(sp.refused[i], out.Refused, first)
		if why == nil {
			why = refuse(TurnNotFound, "no row contains the turn of site %d", i)
		}
		out.SiteDrops = append(out.SiteDrops, *why)
		if out.Refused == nil && !taught[sp.target[i]] && !lost[sp.target[i]] && sp.counted(i) {
			lost[sp.target[i]] = true
			turns = append(turns, *why)
		}
	}
	if out.Refused == nil {
		out.TurnDrops = turns
	}
	return out
}

// counted reports whether a site's target is one of the record's turns. It returns false if the target is missing, was
// not sampled or lacks the part in the loss.
func (sp *splicer) counted(i int) bool {
	r := sp.refused[i]
	return r == nil || r.Reason != ledger.NoNextTurn && r.Reason != ledger.TurnNotSampled && r.Reason != PartAbsent
}

// apart gives each site its own row that ends with the site's target, as the composer layout requires.
func (w *worker) apart(out *outcome, sp *splicer, rows []madeSide) *cause {
	whole := out.Rows
	out.Rows = nil
	for i := range whole {
		r := &whole[i]
		told := beginnings{w: w, ids: r.Sides[0].IDs}
		known := sp.made[rows[i].side].students
		for k, s := range r.Meta.Sites {
			last := s.Pairs[len(s.Pairs)-1]
			one := batch.Row{
				Weight: s.PairWeight(r.Weight),
				Meta:   r.Meta,
				Sides:  []batch.Side{{IDs: r.Sides[0].IDs[:last.End]}, r.Sides[1+s.Teacher]},
			}
			student, teacher := r.Meta.Proof[0], r.Meta.Proof[1+s.Teacher]
			message := ownerOf(student.Owners, last.Start)
			student.Owners = teacherOwners(student.Owners, []splice{{message: message, at: -1}}, last.End)
			s.Teacher, s.Weight = 0, 0
			one.Meta.Part, one.Meta.Messages, one.Meta.Sites = len(out.Rows), []int{message}, []batch.RowSite{s}
			one.TrainSites()
			text, target := known[k].text, known[k].target
			if text == "" {
				var err error
				if text, err = told.text(last.End); err != nil {
					return refuse(NotTokenizable, "%v", err)
				}
				if target, err = decodeTarget(w.cfg.Tokenizer, &one.Sides[0]); err != nil {
					return refuse(NotTokenizable, "%v", err)
				}
			}
			w.prove(&student, &one.Sides[0], text, target, rows[i].sampled)
			one.Meta.Proof = []batch.Proof{student, teacher}
			out.Rows = append(out.Rows, one)
		}
	}
	return nil
}

// beginnings caches the text of a row's prefixes. With w.restores, only the new part of an ASCII prefix is decoded.
type beginnings struct {
	w    *worker
	ids  []int32
	upTo int // number of tokens decoded into done
	done string
}

func (b *beginnings) text(end int) (string, error) {
	if b.w.restores && end >= b.upTo {
		more, err := b.w.cfg.Tokenizer.Decode(b.ids[b.upTo:end], false)
		if err != nil {
			return "", err
		}
		if ascii(b.done) && ascii(more) {
			b.done, b.upTo = b.done+more, end
			return b.done, nil
		}
	}
	return b.w.cfg.Tokenizer.Decode(b.ids[:end], false)
}

// ownerOf returns the message that a token belongs to.
func ownerOf(all batch.Owners, at int) int {
	i := slices.IndexFunc(all, func(o batch.Owner) bool { return o.End > at })
	return all[i].Message
}

// targetTurn returns the message whose distribution a site's teacher provides.
func targetTurn(nodes []ttc.Node, s *builders.Site) (int, *cause) {
	at := s.Call
	if s.Target == builders.NextTurn {
		for at = s.Result + 1; at < len(nodes) &&
			(nodes[at].Message.Role == "tool" || nodes[at].Message.Role == "function"); at++ {
		}
	}
	switch {
	case at < 0 || at >= len(nodes) || nodes[at].Message.Role != "assistant":
		return 0, refuse(ledger.NoNextTurn, "no model turn follows message %d", s.Result)
	case nodes[at].Sampled == ttc.No:
		return 0, refuse(ledger.TurnNotSampled, "message %d was not produced by the model in this rollout", at)
	}
	return at, nil
}

// splicer makes the teachers for the rows of one record.
type splicer struct {
	sites   []builders.Site
	target  []int
	refused []*cause // for each site, the (last) reason why no row contains it
	made    map[*side]*spliced
}

// spliced holds a student row's teachers and the data about them.
type spliced struct {
	teachers []batch.Side
	proofs   []batch.Proof
	sites    []batch.RowSite
	students []meaning // for each teacher in the composer layout, the student's row up to the teacher's target
	size     int       // token count of the longest teacher, with room for an omitted hint or a longer contrast
}

// meaning holds the text of a side's tokens and the hash of its trained text. Both are empty if computing them
// would require decoding.
type meaning struct{ text, target string }

// fit is the fitter for distillations. It cuts from the front: first whole rounds before the first target's round, then
// whole steps in that round.
func (sp *splicer) fit(w *worker, m *material, v *view) (*madeSide, *cause) {
	row := func(m *material, v *view) (*madeSide, int, *cause) { return sp.row(w, m, v) }
	return w.fit(m, v, "the teacher's row", func() []block { return blocksBeforeTarget(m) }, row)
}

// blocksBeforeTarget lists the parts that may be cut before the first target, in order: the rounds before the target's,
// then the steps before the target in its round.
func blocksBeforeTarget(m *material) (out []block) {
	all := rounds(m.nodes[:slices.Index(m.trained, true)+1])
	own := all[len(all)-1]
	return append(all[:len(all)-1], stepsButLast(m.nodes, own)...)
}

// row makes the student and its teachers from a view. size is the token count of the longest of them, with room as in
// spliced.size. Turns for which no site can be spliced are not trained on.
func (sp *splicer) row(w *worker, m *material, v *view) (one *madeSide, size int, refusal *cause) {
	student, r := w.side(m, v)
	if r != nil {
		return nil, 0, r
	}
	if r := w.endAtTarget(student, v); r != nil {
		return nil, 0, r
	}
	kept := make([]bool, len(m.trained))
	var splices []splice
	for i := range sp.sites {
		at := -1
		for k := range m.trained {
			if m.trained[k] && m.place(k) == sp.target[i] {
				at = k
			}
		}
		if at < 0 || !sp.counted(i) {
			continue
		}
		s, r := w.splice(m, v, student, at, &sp.sites[i])
		if r != nil {
			sp.refused[i] = r
			refusal = r
			continue
		}
		s.site = i
		kept[at] = true
		splices = append(splices, *s)
	}
	if len(splices) == 0 {
		return nil, 0, refusal // refusal isn't nil, because every trained turn is the target of a site
	}
	if !slices.Equal(kept, m.trained) { // rebuild the student without training the turns that lack a teacher
		fewer := *m
		fewer.trained = kept
		return sp.row(w, &fewer, v)
	}
	out, r := w.teach(student, splices, sp.sites)
	if r != nil {
		return nil, 0, r
	}
	size = max(len(student.IDs), out.size)
	sp.made[student] = out
	return &madeSide{side: student}, size, nil
}

// endAtTarget cuts off the template's text after the last target, because none of that text is trained on.
func (w *worker) endAtTarget(s *side, v *view) *cause {
	end := s.Trained[len(s.Trained)-1].End
	if end == len(s.IDs) {
		return nil
	}
	at, known := s.cut(end)
	s.IDs = s.IDs[:end:end]
	var out batch.Owners
	for _, o := range s.proof.Owners {
		o.End = min(o.End, end)
		out = append(out, o)
		if o.End == end {
			break
		}
	}
	s.proof.Owners = out
	if known {
		s.text, s.offsets = s.text[:at], s.offsets[:end]
		s.proof.Text = hexSum(s.text)
		return nil
	}
	s.text = ""
	text, err := w.cfg.Tokenizer.Decode(s.IDs, false)
	switch {
	case err != nil:
		return refuse(NotTokenizable, "%v", err)
	case !s.proof.Lossy && !s.given && !strings.HasPrefix(v.res.Text, text):
		return refuse(InvariantBroken, "the row up to its last target is not a prefix of the render")
	}
	s.proof.Text = hexSum(text)
	return nil
}

// teach makes the teachers: one per site or, with Cumulative, a single one in which each target sees the hints before
// it.
func (w *worker) teach(student *side, splices []splice, sites []builders.Site) (*spliced, *cause) {
	out := &spliced{}
	row := batch.Row{Sides: []batch.Side{student.Side}}
	slices.SortStableFunc(splices, func(a, b splice) int { return a.at - b.at })
	groups := [][]splice{splices}
	if !w.cfg.Cumulative {
		groups = slices.Collect(slices.Chunk(splices, 1))
	}
	for k, group := range groups {
		var ids []int32
		from, end, target, room := 0, 0, -1, 0
		for _, s := range group {
			room += s.room
			ids = append(append(ids, student.IDs[from:s.at]...), s.ids...)
			from = s.at
			end = max(end, s.runs[len(s.runs)-1].End)
			site := rowSite(&sites[s.site], &s, k)
			if s.target == target { // the second of two hints for one turn adds no pairs
				site.Pairs = []chat.Span{}
			}
			target = s.target
			row.Meta.Sites = append(row.Meta.Sites, site)
		}
		ids = append(ids, student.IDs[from:end]...)
		out.size = max(out.size, len(ids)+room)
		row.Sides = append(row.Sides, batch.Side{IDs: ids})
		out.proofs = append(out.proofs, batch.Proof{Owners: teacherOwners(student.proof.Owners, group, end)})
	}
	if err := row.Splices(); err != nil {
		return nil, refuse(InvariantBroken, "%v", err)
	}
	row.TrainSites()
	if !slices.Equal(row.Sides[0].Trained, student.Trained) {
		return nil, refuse(InvariantBroken, "the sites' targets differ from the student's trained tokens")
	}
	out.sites, out.teachers = row.Meta.Sites, row.Sides[1:]
	out.students = make([]meaning, len(out.sites))
	if w.cfg.Layout == batch.Composer && !w.cfg.Cumulative {
		for k := range out.sites {
			out.students[k] = student.upTo(&out.sites[k])
		}
	}
	for k := range out.teachers {
		out.proofs[k].Lossy = student.proof.Lossy
		if r := w.proveTeacher(&out.proofs[k], &out.teachers[k], student, groups[k]); r != nil {
			return nil, r
		}
	}
	return out, nil
}

func rowSite(s *builders.Site, sp *splice, teacher int) batch.RowSite {
	kind, target := "knowable", "failed_turn"
	if s.HintKind == builders.Hindsight {
		kind = "hindsight"
	}
	if s.Target == builders.NextTurn {
		target = "next_turn"
	}
	return batch.RowSite{
		Site:       sp.site,
		HintSHA256: hexSum(s.Hint),
		Kind:       kind,
		Class:      s.Error,
		Source:     s.HintSource,
		Target:     target,
		Mode:       sp.mode,
		Teacher:    teacher,
		At:         int32(sp.at),
		Hint:       int32(len(sp.ids)),
		Neutral:    sp.neutral,
		Contrast:   sp.contrast,
		Pairs:      sp.runs,
	}
}

func (w *worker) proveTeacher(p *batch.Proof, s *batch.Side, student *side, group []splice) *cause {
	text, target, ok := teacherText(s, student, group)
	if !ok {
		var err error
		if text, target, err = decodeSide(w.cfg.Tokenizer, s); err != nil {
			return refuse(NotTokenizable, "%v", err)
		}
	}
	w.prove(p, s, text, target, student.sampled)
	return nil
}

// upTo returns the text of a student's tokens up to the end of a site's target, and the hash of the target's text.
func (s *side) upTo(site *batch.RowSite) meaning {
	one := batch.Side{IDs: s.IDs[:site.Pairs[len(site.Pairs)-1].End]}
	for _, run := range site.Pairs {
		if n := len(one.Trained); n > 0 && one.Trained[n-1].End == run.Start {
			one.Trained[n-1].End = run.End
		} else {
			one.Trained = append(one.Trained, run)
		}
	}
	text, target, ok := teacherText(&one, s, nil)
	if !ok {
		return meaning{}
	}
	return meaning{text, target}
}

// teacherText returns the text of a teacher's tokens and the hash of its trained text, assembled from the text of the
// student and the hints. It returns false if the text of either is unknown. Decoding every teacher would cost more than
// everything else combined.
func teacherText(s *batch.Side, student *side, group []splice) (text, target string, ok bool) {
	var b strings.Builder
	from, by, tokens := 0, 0, 0
	h := sha256.New()
	run := 0
	// piece appends the student's text up to a token and hashes the trained runs in it.
	piece := func(to int) bool {
		end, ok := student.cut(to)
		if !ok {
			return false
		}
		b.WriteString(student.text[from:end])
		from, tokens = end, to
		for ; run < len(s.Trained) && s.Trained[run].End <= to+by; run++ {
			start, ok1 := student.cut(s.Trained[run].Start - by)
			end, ok2 := student.cut(s.Trained[run].End - by)
			if !ok1 || !ok2 {
				return false
			}
			addTarget(h, student.text[start:end])
		}
		return true
	}
	for _, x := range group {
		if x.at > tokens && !piece(x.at) || x.text == "" && len(x.ids) > 0 {
			return "", "", false
		}
		b.WriteString(x.text)
		by += len(x.ids)
	}
	if !piece(len(s.IDs)-by) || run < len(s.Trained) {
		return "", "", false
	}
	return b.String(), hex.EncodeToString(h.Sum(nil)), true
}

// teacherOwners returns the student's owners with the hints inserted; tokens trained for other sites aren't in this
// teacher's loss.
func teacherOwners(student batch.Owners, group []splice, end int) (out batch.Owners) {
	by, next, at := 0, 0, 0
	add := func(to, message int, why string) {
		if k := len(out) - 1; k >= 0 && out[k].Message == message && out[k].Why == why {
			out[k].End = to
		} else if to > at+by {
			out = append(out, batch.Owner{End: to, Message: message, Why: why})
		}
	}
	for _, o := range student {
		stop := min(o.End, end)
		for at < stop {
			for next < len(group) && group[next].at == at {
				add(at+by+len(group[next].ids), -1, batch.Hint)
				by += len(group[next].ids)
				next++
			}
			to := stop
			if next < len(group) {
				to = min(to, group[next].at)
			}
			why := o.Why
			if why == batch.InLoss &&
				!slices.ContainsFunc(group, func(s splice) bool { return s.message == o.Message }) {
				why = batch.Policy
			}
			add(to+by, o.Message, why)
			at = to
		}
	}
	return out
}
