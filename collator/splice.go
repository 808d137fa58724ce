package collator

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/internal/prefix"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// A teacher is a splice, never a second render (D5): teacher = student[:at] + hint + student[at:end], where end is
// the end of the target. The teacher therefore has all of the student's tokens up to end, and the alignment is exact
// by construction instead of being derived from lengths (D3, D6).
//
// The template determines the hint's tokens. The conversation up to the target is rendered as the model saw it, and
// once more with the hint added as a system message, as a user message, or to the preceding message. If the second text
// is the first with one piece inserted, that piece is the hint. A template fails this test if it raises an exception,
// drops or moves the message, or changes any other text (Qwen 3's drops earlier reasoning after a user message). Then
// the next mode is tried. A site for which all modes fail is refused. The tokens on both sides of the hint's right edge
// must not merge: either an added token (a special one, or one like </tool_response>) is next to the edge, or encoding
// the text on both sides together gives the same tokens as encoding it separately.
//
// The position may still be wrong. Many templates print every system message at the beginning, where the hint would
// precede the whole history and be visible to every turn. Therefore, text from an earlier message must not lie
// between a hint and its turn, except the text of the message directly before the turn if the hint was put into that
// message.

// A control run inserts every hint, checks its position, and then removes it, so teacher and student have the same
// tokens at the same positions. The loss on such rows is exactly 0 unless the trainer reads the wrong positions.

// splice is a hint at a position in a student row.
type splice struct {
	site    int
	target  int     // first token of the target turn
	message int     // message of the target, as an index in the record
	at      int     // the hint precedes this token of the student
	ids     []int32 // tokens of the hint
	room    int     // extra tokens that must fit in the teacher's row, for a longer contrast or an omitted hint
	text    string  // text of the hint's tokens, if it was checked
	// neutral and contrast hold the tokens of a neutral hint and of another site's hint, each placed like this hint.
	// They are nil if there is no such hint or it can't be placed there.
	neutral, contrast []int32
	runs              []chat.Span // the target's tokens that are in the loss
	mode              string
}

// The ways to place a hint in a conversation, in the order they are tried.
const (
	modeSystem = "system"
	modeUser   = "user"
	modeAppend = "append" // appended to the preceding message, a tool result or a user message
	modeLine   = "line"   // like append, followed by a line break so that the hint doesn't merge with the text after it
	// Placed before the text of the preceding message, because a hint after that text might merge with the following
	// text.
	modePrepend = "prepend"
	// Like prepend, with a space after the hint. The space may be the first byte of the row's next token.
	modeLead = "lead"
	// Added to an empty preceding message, on a separate line. The line breaks around an empty tool result are often a
	// single token; the hint is inserted after it.
	modeBelow = "below"
	modeNone  = batch.NoHint // omitted
)

// within reports whether a mode puts the hint into the message before the turn.
func within(mode string) bool { return mode != modeSystem && mode != modeUser }

// leakTokens is the number of consecutive tokens of the target that a hint must not contain.
const leakTokens = 12

// splice determines the position and the mode in which a site's hint is inserted into a student
// row. at is the target's index in m.
func (w *worker) splice(m *material, v *view, student *side, at int, site *builders.Site) (*splice, *cause) {
	s := &splice{message: m.place(at), target: -1}
	from := 0
	for _, o := range student.proof.Owners {
		if o.Message == s.message && o.Why != batch.Context {
			if s.target < 0 {
				s.target = from
			}
			if o.Why == batch.InLoss {
				s.runs = append(s.runs, chat.Span{Start: from, End: o.End})
			}
		}
		from = o.End
	}
	if slices.Contains(student.open, s.message) {
		return nil, withoutStop(s.message)
	}
	if len(s.runs) == 0 {
		return nil, refuse(InvariantBroken, "no token of message %d is in the loss", s.message)
	}
	i := slices.IndexFunc(v.turns, func(t turns.Turn) bool { return t.Message == at })
	given, r := w.renderGiven(m, v, student, at, v.turns[i].Start)
	if r != nil {
		return nil, r
	}
	var why []string
	for _, mode := range []string{modeSystem, modeUser, modeAppend, modeLine, modePrepend, modeLead, modeBelow} {
		detail, r := w.spliceAs(given, mode, site, s)
		if r != nil {
			return nil, r
		}
		if detail == "" {
			in := func(hint string) []int32 { return w.replacementTokens(given, s, hint) }
			s.neutral = in(w.cfg.Neutral)
			if w.cfg.Contrast {
				if s.contrast = w.contrast(site, student, s, in); s.contrast == nil {
					return nil, refuse(contrastAbsent, "no other site of the task has a different hint from the same source that "+
						"fits before message %d", s.message)
				}
				s.room = max(0, len(s.contrast)-len(s.ids))
			}
			if w.cfg.NullHints {
				s.room += len(s.ids)
				s.ids, s.contrast, s.text, s.mode = nil, nil, "", modeNone
			}
			return s, nil
		}
		why = append(why, mode+": "+detail)
	}
	return nil, refuse(HintUnplaceable, "before message %d: %s", s.message, strings.Join(why, "; "))
}

// givenContext is the model's input before a turn, as the row contains it.
type givenContext struct {
	template.Result
	m       *material
	v       *view
	student *side
	turn    int    // the turn's index in m
	cut     string // the part at the end of the generation prompt that the row omits, or ""
	add     string // the header that the row has but the prompt lacks, or ""
}

// renderGiven renders the model's input before a turn. The row must begin with it.
func (w *worker) renderGiven(m *material, v *view, student *side, at, start int) (*givenContext, *cause) {
	open := *m.conv.Head(at)
	open.Open = true
	res, err := v.r.Render(&open)
	if err != nil {
		return nil, refuse(TemplateRefused, "%v", err)
	}
	g := &givenContext{Result: res, m: m, v: v, student: student, turn: at}
	if v.r.Cuts() && start < len(res.Text) {
		g.Text, g.cut = res.Text[:start], res.Text[start:]
	}
	if header := v.r.Header(len(m.tools) > 0); v.r.Cuts() && len(res.Text)+len(header) == start {
		g.Text, g.add = res.Text+header, header
	}
	if g.Text != v.res.Text[:start] {
		return nil, unlikeSampled(m.place(at))
	}
	return g, nil
}

// firstAfter returns the first message below limit whose text ends after byte q, or -1.
func (g *givenContext) firstAfter(q, limit int) int {
	for s := range turns.Fields(&g.Result) {
		if s.Message >= 0 && s.Message < limit && s.Start < s.End && s.End > q {
			return s.Message
		}
	}
	return -1
}

// hinted is the model's input before a turn, with a hint inserted as one piece at byte lo of the given text.
// Inserting the piece at any other position up to hi would produce the same text (as inserting "a" into "ab" at
// 0 or 1 does). The preferred position is byte at.
type hinted struct {
	template.Result
	given      *givenContext
	lo, at, hi int
	text       string // text of the hint
	limit      int    // the text after the hint must belong to this message or a later one
}

// places iterates over the positions where the piece contains the whole hint, starting at the preferred one.
func (h *hinted) places() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, r := range [][2]int{{h.at, h.hi + 1}, {h.lo, h.at}} {
			for q := r[0]; q < r[1]; q++ {
				if strings.Contains(h.Text[q:h.end(q)], h.text) && !yield(q) {
					return
				}
			}
		}
	}
}

// end returns the position in h.Text at which the inserted piece ends if it starts at byte q of the given text.
func (h *hinted) end(q int) int { return len(h.Text) - (len(h.given.Text) - q) }

// spliceAs tries to place the hint in one mode. The detail explains a failure.
func (w *worker) spliceAs(
	given *givenContext, mode string, site *builders.Site, s *splice,
) (detail string, refusal *cause) {
	hinted, detail := w.renderHinted(given, mode, site.Hint)
	if detail != "" {
		return detail, nil
	}
	if w.leaksTokens(site.Hint, given.student, s) {
		return "", refuse(ledger.HintContainsTarget, "the hint contains %d or more consecutive tokens of the turn, or all of them", leakTokens)
	}
	// Look for a position at which the hint ends at a token boundary.
	first := "the template drops or rewrites the hint"
	for q := range hinted.places() {
		detail, r := w.spliceAt(hinted, q, s)
		if r != nil || detail == "" {
			s.mode = mode
			return "", r
		}
		if q == hinted.at || first == "" {
			first = detail
		}
	}
	return first, nil
}

// contrast returns the tokens of a hint that is wrong for the site: the task's next hint that has the same source but
// different text, fits, and doesn't contain the target. It returns nil if none qualifies.
func (w *worker) contrast(site *builders.Site, student *side, s *splice, in func(string) []int32) []int32 {
	own := slices.Index(w.sites, site)
	for _, x := range slices.Concat(w.sites[own+1:], w.sites[:own]) {
		if x.HintSource != site.HintSource || strings.TrimSpace(x.Hint) == strings.TrimSpace(site.Hint) ||
			w.leaksTokens(x.Hint, student, s) {
			continue
		}
		if ids := in(x.Hint); ids != nil {
			return ids
		}
	}
	return nil
}

// replacementTokens returns the tokens of another hint, placed like the site's own, or nil if that hint can't be placed
// there.
func (w *worker) replacementTokens(given *givenContext, s *splice, hint string) []int32 {
	if hint == "" {
		return nil
	}
	hinted, detail := w.renderHinted(given, s.mode, hint)
	if detail != "" {
		return nil
	}
	for q := range hinted.places() {
		try := *s
		if detail, r := w.spliceAt(hinted, q, &try); r == nil && detail == "" && try.at == s.at {
			return try.ids
		}
	}
	return nil
}

// spliceAt tries to place the hint at one position. The detail explains a failure.
func (w *worker) spliceAt(hinted *hinted, q int, s *splice) (detail string, refusal *cause) {
	given, student := hinted.given, hinted.given.student
	if q < len(given.Text) && !utf8.RuneStart(given.Text[q]) {
		return "the hint's position is inside a character", nil
	}
	if i := given.firstAfter(q, hinted.limit); i >= 0 {
		return fmt.Sprintf("the template puts the hint before the text of message %d", given.m.place(i)), nil
	}
	tail, r := w.encodePart(&given.Result, q, len(given.Text))
	if r != nil {
		return "", r
	}
	ids, r := w.encodePart(&hinted.Result, q, hinted.end(q))
	if r != nil {
		return "", r
	}
	i := w.place(given.Text[:q], tail, student, s.target)
	special := w.cfg.Tokenizer.IsAdded
	switch {
	case len(ids) == 0:
		return "the hint contains no tokens", nil
	case i < 1:
		return w.noPlace(given.Text[:q], student, s.target), nil
	case !special(student.IDs[i]) && !special(ids[len(ids)-1]) && !w.joins(hinted, q, ids, tail):
		return "the hint's last token merges with what follows it", nil
	}
	s.at, s.ids, s.text = i, ids, ""
	return "", w.checkTeacher(hinted, q, s)
}

// noPlace explains why a row lacks a token boundary at the end of before. Either a token spans the position, such as
// one for the two line breaks around an empty tool result, or the row was encoded differently.
func (w *worker) noPlace(before string, student *side, target int) string {
	for i := target; i > 0; i-- {
		if at, ok := student.cut(i); !ok || at > len(before) {
			continue
		} else if at < len(before) {
			return "the hint's position is inside a token of the row"
		}
		break
	}
	return "the row's tokens before the turn differ from the tokens of the same text encoded separately"
}

// joins reports whether a piece and the text after it have the same tokens when encoded together as when encoded
// separately.
func (w *worker) joins(hinted *hinted, q int, piece, tail []int32) bool {
	if len(tail) == 0 {
		return false // there is no text between the piece and the turn
	}
	both, r := w.encodePart(&hinted.Result, q, len(hinted.Text))
	return r == nil && len(both) == len(piece)+len(tail) && slices.Equal(both[:len(piece)], piece) &&
		slices.Equal(both[len(piece):], tail)
}

// place returns the index of the student's token at which the tail, the text before the turn, begins, or -1 if it
// cannot be determined. If the turn's first characters merge with the end of the tail, place looks for the tail's
// first token, and the text before that token must match the render.
func (w *worker) place(before string, tail []int32, student *side, target int) int {
	if i := target - len(tail); i > 0 && slices.Equal(student.IDs[i:target], tail) {
		return i
	}
	if len(tail) == 0 || student.given || student.proof.Lossy || !w.cfg.Tokenizer.IsAdded(tail[0]) {
		return -1
	}
	for i := target - 1; i > 0; i-- {
		if student.IDs[i] != tail[0] {
			continue
		}
		if w.decodesTo(student.IDs[:i], before) {
			return i
		}
		break
	}
	return -1
}

// renderHinted renders the conversation before a turn with the hint in it. If that fails, the detail says why.
func (w *worker) renderHinted(given *givenContext, mode, text string) (_ *hinted, detail string) {
	m, v, at := given.m, given.v, given.turn
	open := *m.conv.Head(at)
	open.Open = true
	before := &m.nodes[max(at-1, 0)].Message
	wanted := len(given.Text) + len(given.cut) - len(v.r.Prompt(len(m.tools) > 0))
	switch mode {
	case modeAppend, modeLine, modePrepend, modeLead, modeBelow:
		if at == 0 || before.Role != "tool" && before.Role != "user" || before.Form != chat.Text ||
			mode == modeBelow && before.Text != "" {
			return nil, "there is no suitable tool or user text just before the turn"
		}
		msg := *before
		msg.Text = withHint(mode, msg.Text, text)
		if msg.ToolCallID != "" && w.render.ShortIDs() {
			msg.ToolCallID = shortID(msg.ToolCallID)
		}
		c, err := conversation([]chat.Message{msg})
		if err != nil {
			return nil, err.Error()
		}
		open.Messages = append(slices.Clone(open.Messages[:at-1]), template.WithOrigin(c.Messages[0], at-1))
		wanted = placeInText(given, at-1, mode == modePrepend || mode == modeLead)
	default:
		c, err := conversation([]chat.Message{{Role: mode, Form: chat.Text, Text: text}})
		if err != nil {
			return nil, err.Error()
		}
		open.Messages = append(slices.Clone(open.Messages), template.WithOrigin(c.Messages[0], at))
	}
	res, err := v.r.Render(&open)
	if err != nil {
		return nil, "the template rejects the conversation with the hint"
	}
	if !strings.HasSuffix(res.Text, given.cut) {
		return nil, "the text doesn't end in the generation prompt"
	}
	h := &hinted{Result: res, given: given, text: strings.TrimSpace(text), limit: at}
	if within(mode) {
		h.limit = at - 1
	}
	h.Text = res.Text[:len(res.Text)-len(given.cut)]
	if !strings.HasSuffix(h.Text, given.add) {
		h.Text += given.add
	}
	h.lo, h.hi = len(given.Text)-commonSuffix(given.Text, h.Text), prefix.Text(given.Text, h.Text)
	switch {
	case len(h.Text) <= len(given.Text) || h.lo > h.hi:
		return nil, "with the hint, the template also changes other text"
	case wanted < h.lo || wanted > h.hi:
		wanted = h.lo
	}
	h.at = wanted
	return h, ""
}

// placeInText returns the position where a message's text begins or ends in a render. It returns -1 for empty text,
// because its position can be found only in the render with the hint.
func placeInText(given *givenContext, message int, start bool) (at int) {
	at = -1
	for _, s := range given.Spans {
		if s.Message != message || s.Field != "content" {
			continue
		}
		if start {
			return s.Start
		}
		at = s.End
	}
	return at
}

// withHint returns a message's text with a hint added, in one of the modes.
func withHint(mode, text, hint string) string {
	gap := "\n\n"
	if text == "" {
		gap = ""
	}
	switch mode {
	case modePrepend:
		return hint + gap + text
	case modeLead:
		return hint + " " + text
	case modeLine:
		return text + gap + hint + "\n"
	case modeBelow:
		return text + "\n" + hint
	}
	return text + gap + hint
}

func commonSuffix(a, b string) (n int) {
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// encodePart encodes bytes [from, to) of a render separately.
func (w *worker) encodePart(res *template.Result, from, to int) ([]int32, *cause) {
	if from == to {
		return nil, nil
	}
	w.enc.Reset()
	refusal := w.encode(&w.enc, res.Text, turns.Template(res), from, to)
	return slices.Clone(w.enc.IDs), refusal
}

// checkTeacher checks that the teacher's tokens up to the target match the text rendered with the hint, given that the
// student's match the text rendered without it. The hint's tokens begin at byte from of the text.
func (w *worker) checkTeacher(hinted *hinted, from int, s *splice) *cause {
	to, student := hinted.end(from), hinted.given.student
	if student.proof.Lossy || student.given { // ids from the source may differ from the encoded text's ids
		return nil
	}
	piece, matches := hinted.Text[from:to], false
	at, ok1 := student.cut(s.at)
	end, ok2 := student.cut(s.target)
	if ok1 && ok2 && utf8.ValidString(piece) && w.decodesTo(s.ids, piece) {
		s.text = piece
		matches = from == at && hinted.Text[:at] == student.text[:at] &&
			strings.HasPrefix(student.text[at:end], hinted.Text[to:])
	} else {
		ids := slices.Concat(student.IDs[:s.at], s.ids, student.IDs[s.at:s.target])
		text, err := w.cfg.Tokenizer.Decode(ids, false)
		if err != nil {
			return refuse(NotTokenizable, "%v", err)
		}
		matches = strings.HasPrefix(text, hinted.Text) // filler may separate the prompt and the target
	}
	if !matches {
		return refuse(InvariantBroken, "the teacher's tokens before message %d do not match the text rendered with the hint", s.message)
	}
	return nil
}

// leaksTokens reports whether a hint contains a long run of the target's tokens, or a shorter target as a whole.
func (w *worker) leaksTokens(hint string, student *side, s *splice) bool {
	w.enc.Reset()
	if err := w.cfg.Tokenizer.EncodeRow(&w.enc, hint, nil); err != nil {
		return false // a hint that can't be encoded is refused elsewhere
	}
	var target []int32
	for _, r := range s.runs {
		target = append(target, student.IDs[r.Start:r.End]...)
	}
	if n := len(target); n > 0 && slices.Contains(w.terminators, target[n-1]) {
		target = target[:n-1]
	}
	n := min(leakTokens, len(target))
	if n < 2 || len(w.enc.IDs) < n {
		return false
	}
	in := w.enc.IDs
	starts := map[int32][]int{}
	for i := 0; i+n <= len(in); i++ {
		starts[in[i]] = append(starts[in[i]], i)
	}
	for i := 0; i+n <= len(target); i++ {
		for _, k := range starts[target[i]] {
			if slices.Equal(in[k:k+n], target[i:i+n]) {
				return true
			}
		}
	}
	return false
}
