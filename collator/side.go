package collator

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"
	"math"
	"slices"
	"sort"
	"unicode/utf8"
	"unsafe"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/redact"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// worker holds one goroutine's scratch memory. Its methods make the sides of rows.
type worker struct {
	*Collator
	enc     tokenizer.Encoding
	ids     []int32     // ids of the side being made
	offsets []chat.Span // text offsets of ids
	spans   []chat.Span
	runs    []chat.Span
	fields  []template.Span
	sizes   []int            // see counts
	sites   []*builders.Site // sites of the group's records

	lastPrompt *promptOf // see promptFor

	tools     []chat.Tool // see toolList
	toolValue pyvalue.Value
}

// view is a rendered conversation with its turns located.
type view struct {
	r     *turns.Renderer
	res   template.Result
	turns []turns.Turn
	lost  []*turns.NotFound
	// sampled marks messages whose turns are known to be rendered exactly as sampled.
	sampled map[int]bool
}

func (v *view) standsAsSampled(message int) {
	if v.sampled == nil {
		v.sampled = map[int]bool{}
	}
	v.sampled[message] = true
}

// stable reports whether a turn of the rendered conversation is rendered as it was sampled.
func (v *view) stable(c *turns.Conversation, t *turns.Turn) bool {
	ok, err := v.r.Stable(c, &v.res, t)
	return ok && err == nil
}

// without returns the reason why the view lacks a message's turn, or nil if it has the turn.
func (v *view) without(message int) *cause {
	for _, l := range v.lost {
		if l.Message == message {
			return notFound(l)
		}
	}
	return nil
}

func notFound(l *turns.NotFound) *cause {
	if l.Split {
		return refuse(PartlyRendered, "the template renders a part of message %d outside its turn", l.Message)
	}
	return refuse(TurnNotFound, "%v", l)
}

// look renders a conversation and locates its turns.
func (w *worker) look(r *turns.Renderer, c *turns.Conversation) (*view, *cause) {
	res, err := r.RenderTurns(c)
	if err != nil {
		return nil, refuse(TemplateRefused, "%v", err) // never fall back to a different rendering: DEFECTS.md, D18
	}
	v := &view{r: r, res: res}
	v.turns, v.lost = r.FindEach(c, &res)
	if !turns.AgreesWithMarkers(&res, v.turns) {
		return nil, refuse(MaskDisagreement, "the template's generation markers do not match the turns found")
	}
	r.Stop(c, &v.res, v.turns)
	return v, nil
}

// renderers returns the renderers to try for a conversation, in order: as configured, with thinking switched off, and
// for turns that the template renders without the end of the generation prompt.
func (w *worker) renderers() []*turns.Renderer {
	out := []*turns.Renderer{w.render}
	if s := w.render.Silent(); s != nil {
		out = append(out, s)
	}
	return append(out, w.render.Cut())
}

// retryable reports whether a conversation refused for this cause may succeed with another renderer.
func retryable(r *cause) bool {
	switch r.Reason {
	case GenerationPromptMismatch, StraddleEdge, TurnNotFound, PartlyRendered, DialectUnproven:
		return true
	}
	return false
}

// side is a complete sequence of tokens.
type side struct {
	batch.Side
	proof    batch.Proof
	messages []int // messages with trained tokens
	sampled  bool  // all trained ids come from the source
	given    bool  // some ids come from the source
	cutOff   bool  // a trained turn was cut off when it was sampled
	open     []int // indices in the record of the trained messages whose complete turn is rendered without a stop token
	short    bool  // call ids were replaced; see shortID
	left     LeftOut
	args     string

	text    string      // the tokens' text; empty unless each token's position in it is known
	offsets []chat.Span // positions in text; valid until the worker makes its next side
}

// leftOut counts the parts of the messages that the view omits.
func (v *view) leftOut(m *material) (out LeftOut) {
	thinksOrCalls := func(n ttc.Node) bool { return n.Message.Reasoning != "" || len(n.Message.ToolCalls) > 0 }
	if !slices.ContainsFunc(m.nodes, thinksOrCalls) {
		return out
	}
	shown := turns.ShownOf(&v.res, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i].Message
		if m.trained[i] && n.Reasoning != "" && !shown[i].Reasoning {
			out.Reasoning++
		}
		if len(n.ToolCalls) > 0 && !shown[i].Calls {
			out.Calls++
		}
	}
	return out
}

// cut returns the position in the text where token i begins. It returns false if that is unknown or inside a character.
func (s *side) cut(i int) (int, bool) {
	if s.text == "" || i < 1 || i > len(s.IDs) {
		return 0, false
	}
	at := s.offsets[i-1].End
	next := len(s.text)
	if i < len(s.offsets) {
		next = s.offsets[i].Start
	}
	return at, at == next && (at == len(s.text) || utf8.RuneStart(s.text[at]))
}

// sideBuilder assembles a side.
type sideBuilder struct {
	w        *worker
	m        *material
	v        *view
	ids      []int32     // ids and offsets are in the worker's memory
	offsets  []chat.Span // offsets into the rendered text; zero-width for sampled ids
	own      []chat.Span // the template's own text
	trained  []span
	sampled  []span
	rendered bool // a trained turn lacks ids from the source
	open     []int
	without  []chat.Span // bytes of trained turns that aren't trained on, as offsets into the rendered text
}

// span is a run of tokens that belongs to a turn.
type span struct {
	chat.Span
	message int
}

// side tokenizes a conversation as v renders it. Ids that the source has for assistant turns are used unchanged,
// and the text between these turns is encoded separately.
func (w *worker) side(m *material, v *view) (*side, *cause) { return w.sideUpTo(m, v, math.MaxInt) }

// sideUpTo is like side, for a row of at most limit tokens. If the side is longer, its mask and proof may be missing.
func (w *worker) sideUpTo(m *material, v *view, limit int) (*side, *cause) {
	if partly := v.partly(m); len(partly) > 0 {
		return nil, partlyRendered(m.place(partly[0]))
	}
	for _, l := range v.lost {
		if n := &m.nodes[l.Message]; m.trained[l.Message] || len(n.TokenIDs) > 0 && n.Sampled != ttc.No {
			return nil, notFound(l)
		}
	}
	b := &sideBuilder{w: w, m: m, v: v, own: turns.Template(&v.res), ids: w.ids[:0], offsets: w.offsets[:0]}
	defer func() { w.ids, w.offsets = b.ids, b.offsets }()
	at, skip := 0, 0 // skip is the number of leading bytes of the next piece that the last ids cover
	var ranges []chat.Span
	var owners []*turns.Turn
	for i := range v.turns {
		t := &v.turns[i]
		n := &m.nodes[t.Message]
		if len(n.TokenIDs) == 0 || n.Sampled == ttc.No {
			if m.trained[t.Message] {
				b.rendered, b.without = true, append(b.without, m.contextOf(t, &v.res)...)
				u := *t
				if n.FinishReason == "length" {
					u.End = u.Body // the model did not end the turn
				} else if !t.Terminated() {
					b.open = append(b.open, m.place(t.Message))
				}
				if m.apart {
					if r := b.text(at, t.Start, skip); r != nil {
						return nil, r
					}
					at, skip = t.Start, 0
				}
				for _, r := range turns.Trained(u) {
					ranges, owners = append(ranges, r), append(owners, t)
				}
			}
			continue
		}
		if r := b.text(at, t.Start, skip); r != nil {
			return nil, r
		}
		if r := b.given(t, n); r != nil {
			return nil, r
		}
		at, skip = t.Body, 0
		if t.Terminated() && slices.Contains(w.terminators, n.TokenIDs[len(n.TokenIDs)-1]) {
			skip = t.End - t.Body
		}
	}
	if r := b.text(at, len(v.res.Text), skip); r != nil {
		return nil, r
	}
	if r := b.mask(ranges, owners); r != nil {
		return nil, r
	}
	if r := b.proveTurns(); r != nil {
		return nil, r
	}
	return b.finish(limit)
}

// text encodes bytes [from, to) of the render, without the tokens of the first skip bytes.
func (b *sideBuilder) text(from, to, skip int) *cause {
	if from+skip >= to {
		return nil
	}
	row := tokenizer.Encoding{IDs: b.ids, Offsets: b.offsets}
	if refusal := b.w.encode(&row, b.v.res.Text, b.own, from, to); refusal != nil {
		return refusal
	}
	first := len(b.ids)
	b.ids, b.offsets = row.IDs[:first], row.Offsets[:first]
	for k := first; k < len(row.IDs); k++ {
		o := row.Offsets[k]
		if o.End <= skip && skip > 0 {
			continue
		}
		b.ids = append(b.ids, row.IDs[k])
		b.offsets = append(b.offsets, chat.Span{Start: from + o.Start, End: from + o.End})
	}
	return nil
}

// encode appends the tokens of bytes [from, to) of a text. own lists the ranges of the template's own text.
func (w *worker) encode(row *tokenizer.Encoding, text string, own []chat.Span, from, to int) *cause {
	w.spans = w.spans[:0]
	i := sort.Search(len(own), func(i int) bool { return own[i].End > from })
	for ; i < len(own) && own[i].Start < to; i++ {
		w.spans = append(w.spans, chat.Span{Start: max(own[i].Start, from) - from, End: min(own[i].End, to) - from})
	}
	err := w.cfg.Tokenizer.EncodeRow(row, text[from:to], w.spans)
	var e *tokenizer.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Code == tokenizer.CodeSpecialInText:
		return refuse(SpecialTokenInText, "%v", err)
	}
	return refuse(NotTokenizable, "%v", err)
}

// given appends the ids that the source supplies for a turn.
func (b *sideBuilder) given(t *turns.Turn, n *ttc.Node) *cause {
	if n.LogProbs != nil && len(n.LogProbs) != len(n.TokenIDs) {
		return refuse(BadSampledIDs, "%s has %d ids and %d log-probs", describe(t.Message, n), len(n.TokenIDs),
			len(n.LogProbs))
	}
	for _, p := range n.LogProbs {
		if f := float64(p); math.IsNaN(f) || math.IsInf(f, 0) || f > 1e-3 {
			return refuse(BadSampledIDs, "%s has a log-prob of %v", describe(t.Message, n), p)
		}
	}
	whole := b.m.part == wholeTurn || b.m.part == answer && !n.Message.Thinks()
	if b.m.trained[t.Message] && !whole {
		return refuse(ReasoningInIDs, "%s has ids from the source, which don't show where a part of it ends", describe(t.Message, n))
	}
	start := len(b.ids)
	for _, id := range n.TokenIDs {
		if id < 0 || int64(id) >= b.w.vocab {
			return refuse(BadSampledIDs, "%s has id %d; the vocabulary has %d", describe(t.Message, n), id, b.w.vocab)
		}
		b.ids = append(b.ids, id)
		b.offsets = append(b.offsets, chat.Span{Start: t.Start, End: t.Start})
	}
	s := span{chat.Span{Start: start, End: len(b.ids)}, t.Message}
	b.sampled = append(b.sampled, s)
	if b.m.trained[t.Message] {
		b.trained = append(b.trained, s)
	}
	return nil
}

// mask finds the tokens of the rendered ranges.
func (b *sideBuilder) mask(ranges []chat.Span, owners []*turns.Turn) *cause {
	w := b.w
	runs, straddle := turns.Tokens(w.runs[:0], b.offsets, ranges)
	w.runs = runs
	if straddle >= 0 {
		o := b.offsets[straddle]
		return refuse(StraddleEdge, "the token %q crosses the edge of a trained turn", b.v.res.Text[o.Start:o.End])
	}
	for i, run := range runs {
		if run.Start == run.End {
			continue
		}
		if w.restores && (b.offsets[run.Start].Start != ranges[i].Start || b.offsets[run.End-1].End != ranges[i].End) {
			return refuse(InvariantBroken, "tokens cover bytes %d-%d of a trained range %d-%d",
				b.offsets[run.Start].Start, b.offsets[run.End-1].End, ranges[i].Start, ranges[i].End)
		}
		t := owners[i]
		if t.Terminated() && ranges[i].End == t.End && !slices.Contains(w.terminators, b.ids[run.End-1]) {
			return refuse(InvariantBroken, "the turn of message %d ends in %q, which is not a separate token", t.Message, b.v.res.Text[t.Body:t.End])
		}
		b.train(run, ranges[i], t.Message)
	}
	slices.SortFunc(b.trained, func(a, c span) int { return a.Start - c.Start })
	return nil
}

// train adds the tokens of a rendered range. It omits redaction tags, which must not be imitated, and parts of turns
// that are context.
func (b *sideBuilder) train(run, of chat.Span, message int) {
	from := run.Start
	add := func(end int) {
		if from < end {
			b.trained = append(b.trained, span{chat.Span{Start: from, End: end}, message})
		}
	}
	for _, p := range b.context(of) {
		first := from
		for first < run.End && b.offsets[first].End <= p.Start {
			first++
		}
		add(first)
		for from = first; from < run.End && b.offsets[from].Start < p.End; {
			from++
		}
	}
	add(run.End)
}

// context lists the untrained parts of a trained range, in text order.
func (b *sideBuilder) context(of chat.Span) (out []chat.Span) {
	for _, p := range redact.Tags(b.v.res.Text[of.Start:of.End]) {
		out = append(out, chat.Span{Start: of.Start + p[0], End: of.Start + p[1]})
	}
	for _, p := range b.without {
		if p.Start < of.End && p.End > of.Start {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, c chat.Span) int { return a.Start - c.Start })
	return out
}

// finish completes the side. A side with more than limit tokens isn't used, so it may lack its mask and proof.
func (b *sideBuilder) finish(limit int) (*side, *cause) {
	s := &side{
		sampled: !b.rendered,
		given:   len(b.sampled) > 0,
		args:    b.m.args,
		open:    b.open,
		short:   b.m.ids,
		left:    b.v.leftOut(b.m),
	}
	s.IDs = slices.Clone(b.ids)
	if len(s.IDs) > limit && b.isSound() {
		return s, nil
	}
	for _, t := range b.trained {
		if t.Start == 0 {
			return nil, refuse(EmptyPromptTokens, "no token precedes the trained turn of message %d", t.message)
		}
		if k := len(s.Trained) - 1; k >= 0 && s.Trained[k].End == t.Start {
			s.Trained[k].End = t.End
		} else {
			s.Trained = append(s.Trained, t.Span)
		}
		if !slices.Contains(s.messages, t.message) {
			s.messages = append(s.messages, t.message)
		}
		s.cutOff = s.cutOff || b.m.nodes[t.message].FinishReason == "length"
	}
	if len(s.Trained) == 0 {
		return nil, refuse(ledger.NothingTrained, "no token is left to train")
	}
	s.logProbs(b)
	if r := s.prove(b); r != nil {
		return nil, r
	}
	s.proof.Owners = b.owners(s.Trained)
	for i, m := range s.messages {
		s.messages[i] = b.m.place(m)
	}
	return s, nil
}

// isSound reports whether the side is already known to be valid, before its mask and proof are made.
func (b *sideBuilder) isSound() bool {
	return len(b.trained) > 0 && b.trained[0].Start > 0 && len(b.sampled) == 0 && b.w.restores &&
		b.w.restored(b.ids, b.offsets, b.v.res.Text)
}

// place returns a node's index in the record.
func (m *material) place(i int) int {
	if m.index == nil {
		return i
	}
	return m.index[i]
}

// logProbs copies the source's log-probs if every trained token has one.
func (s *side) logProbs(b *sideBuilder) {
	if !s.sampled {
		return
	}
	var all []float32
	for _, t := range b.trained {
		p := b.m.nodes[t.message].LogProbs
		if p == nil {
			return
		}
		all = append(all, p...)
	}
	s.LogProbs = all
}

// prove hashes the tokens' text.
func (s *side) prove(b *sideBuilder) *cause {
	w, text := b.w, b.v.res.Text
	if len(b.sampled) == 0 && w.restores && w.restored(s.IDs, b.offsets, text) {
		target := sha256.New()
		for _, run := range s.Trained {
			addTarget(target, text[b.offsets[run.Start].Start:b.offsets[run.End-1].End])
		}
		w.prove(&s.proof, &s.Side, text, hex.EncodeToString(target.Sum(nil)), s.sampled)
		s.text, s.offsets = text, b.offsets
		return nil
	}
	got, target, err := decodeSide(w.cfg.Tokenizer, &s.Side)
	if err != nil {
		return refuse(NotTokenizable, "%v", err)
	}
	w.prove(&s.proof, &s.Side, got, target, s.sampled)
	s.proof.Lossy = len(b.sampled) == 0 && got != text
	return nil
}

// prove sets the hashes in a side's proof, and its number of trained runs without a stop token.
func (w *worker) prove(p *batch.Proof, s *batch.Side, text, target string, sampled bool) {
	p.Text, p.Target, p.Open = hexSum(text), target, openRuns(s, w.terminators)
	if sampled {
		p.IDs = hashIDs(s)
	}
}

// openRuns counts a side's trained runs that don't end in a terminator.
func openRuns(s *batch.Side, terminators []int32) (n int) {
	for _, run := range s.Trained {
		if !slices.Contains(terminators, s.IDs[run.End-1]) {
			n++
		}
	}
	return n
}

// restored reports whether ids decode to text, given that the tokenizer restores ASCII. If text isn't ASCII, restored
// decodes only the tokens of non-ASCII characters and any that share a character.
func (w *worker) restored(ids []int32, offsets []chat.Span, text string) bool {
	if ascii(text) {
		return true
	}
	var others []int32
	var want []byte
	at := 0             // end of the text that the tokens before i cover
	rest := plain(text) // position of the first character at or after at that isn't ASCII
	for i := 0; i < len(ids); {
		start, end := offsets[i].Start, offsets[i].End
		if start < at || start > rest {
			return false // tokens are out of order, or some characters have no token
		}
		if end <= rest {
			i++
		} else {
			for ; i < len(ids) && offsets[i].Start < end; i++ {
				others, end = append(others, ids[i]), max(end, offsets[i].End)
			}
			want = append(want, text[start:end]...)
			rest = end + plain(text[end:])
		}
		at = end
	}
	return ascii(text[at:]) && w.decodesTo(others, string(want))
}

// decodesTo reports whether ids decode to text.
func (w *worker) decodesTo(ids []int32, text string) bool {
	return w.cfg.Tokenizer.DecodesTo(ids, text)
}

var targetEnd = []byte{0}

func addTarget(h hash.Hash, text string) {
	h.Write(unsafe.Slice(unsafe.StringData(text), len(text))) // avoids a copy; Write only reads
	h.Write(targetEnd)
}

// hexSum returns a string's SHA-256 in hex.
func hexSum(text string) string {
	sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(text), len(text))) // avoids a copy; the string is only read
	return hex.EncodeToString(sum[:])
}

// decodeSide returns a side's text and the hash of its trained runs' text.
func decodeSide(t *tokenizer.Tokenizer, s *batch.Side) (text, target string, err error) {
	if text, err = t.Decode(s.IDs, false); err != nil {
		return "", "", err
	}
	target, err = decodeTarget(t, s)
	return text, target, err
}

func decodeTarget(t *tokenizer.Tokenizer, s *batch.Side) (string, error) {
	h := sha256.New()
	for _, run := range s.Trained {
		part, err := t.Decode(s.IDs[run.Start:run.End], false)
		if err != nil {
			return "", err
		}
		addTarget(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// hashIDs hashes the trained ids, as little-endian int32.
func hashIDs(s *batch.Side) string {
	var b []byte
	for _, run := range s.Trained {
		for _, id := range s.IDs[run.Start:run.End] {
			b = binary.LittleEndian.AppendUint32(b, uint32(id))
		}
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func ascii(s string) bool { return plain(s) == len(s) }

// plain returns the number of ASCII characters at the beginning of s.
func plain(s string) int {
	i := 0
	for b := unsafe.Slice(unsafe.StringData(s), len(s)); i+8 <= len(b); i += 8 {
		if binary.LittleEndian.Uint64(b[i:])&0x8080808080808080 != 0 {
			break
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// owners returns the owner of each run of tokens, and whether the run is trained on or why it isn't.
func (b *sideBuilder) owners(trained []chat.Span) (out batch.Owners) {
	spans := slices.AppendSeq(b.w.fields[:0], turns.Fields(&b.v.res))
	b.w.fields = spans
	c := ownerCursor{sideBuilder: b, runs: trained, spans: spans}
	var same chat.Span // tokens before next that start in this range have the same owner as the previous token
	next := 0
	for i := range b.ids {
		if at := b.offsets[i].Start; i < next && at >= same.Start && at < same.End {
			out[len(out)-1].End = i + 1
			continue
		}
		o := c.owner(i)
		if k := len(out) - 1; k >= 0 && out[k].Message == o.Message && out[k].Why == o.Why {
			out[k].End = i + 1
		} else {
			o.End = i + 1
			out = append(out, o)
		}
		same, next = c.same(i)
	}
	return out
}

// ownerCursor finds the owners of tokens in sequence.
type ownerCursor struct {
	*sideBuilder
	runs  []chat.Span // trained tokens
	spans []template.Span

	turn, span, run, given int // indices of the first turn, span, run and sampled range that end after this token
}

// owner returns the owner of token i.
func (c *ownerCursor) owner(i int) (o batch.Owner) {
	b, found := c.sideBuilder, c.v.turns
	for c.given < len(b.sampled) && b.sampled[c.given].End <= i {
		c.given++
	}
	for c.run < len(c.runs) && c.runs[c.run].End <= i {
		c.run++
	}
	at := b.offsets[i].Start
	for c.turn < len(found) && found[c.turn].End <= at &&
		(c.given == len(b.sampled) || b.sampled[c.given].message != found[c.turn].Message) {
		c.turn++
	}
	for c.span < len(c.spans) && c.spans[c.span].End <= at {
		c.span++
	}
	switch {
	case c.given < len(b.sampled) && b.sampled[c.given].Start <= i:
		o.Message = b.m.place(b.sampled[c.given].message)
		o.Why = b.why(b.sampled[c.given].message)
	case c.turn < len(found) && found[c.turn].Start <= at:
		t := &found[c.turn]
		o.Message, o.Why = b.m.place(t.Message), b.why(t.Message)
		within := func(f chat.Span) bool { return at >= f.Start && at < f.End }
		if slices.ContainsFunc(t.Filler, within) {
			o.Why = batch.Filler
		} else if slices.ContainsFunc(b.without, within) {
			o.Why = batch.OtherPart
			if b.m.part == answer {
				o.Why = batch.Reasoning
			}
		}
	case c.span < len(c.spans) && c.spans[c.span].Start <= at && c.spans[c.span].Message >= 0:
		o.Message, o.Why = b.m.place(c.spans[c.span].Message), batch.Context
	case c.span < len(c.spans) && c.spans[c.span].Start <= at:
		o.Message, o.Why = -1, batch.Tools
	default:
		o.Message, o.Why = -1, batch.Markup
	}
	if c.run < len(c.runs) && c.runs[c.run].Start <= i {
		o.Why = batch.InLoss
	} else if o.Why == batch.InLoss {
		o.Why = batch.CutOff // a redaction tag, or the terminator of a turn that the model did not end
	}
	return o
}

// same returns a byte range and a token index, next. Tokens between i and next that start in the range have the same
// owner as token i. Token i must be the last one passed to owner.
func (c *ownerCursor) same(i int) (bytes chat.Span, next int) {
	if len(c.sampled) > 0 {
		return bytes, 0
	}
	bytes, next = chat.Span{Start: c.offsets[i].Start, End: math.MaxInt}, len(c.ids)
	if c.run < len(c.runs) {
		next = edge(c.runs[c.run], i, next)
	}
	end := func(s chat.Span) { bytes.End = edge(s, bytes.Start, bytes.End) }
	if c.span < len(c.spans) {
		end(c.spans[c.span].Span)
	}
	if c.turn < len(c.v.turns) {
		t := &c.v.turns[c.turn]
		end(chat.Span{Start: t.Start, End: t.End})
		for _, f := range t.Filler {
			end(f)
		}
		for _, f := range c.without {
			end(f)
		}
	}
	return bytes, next
}

// edge returns the smallest of s.Start, s.End and limit that is greater than at. limit must be greater than at.
func edge(s chat.Span, at, limit int) int {
	switch {
	case s.Start > at:
		return min(limit, s.Start)
	case s.End > at:
		return min(limit, s.End)
	}
	return limit
}

// why returns the reason a turn is not trained on, or InLoss if it is.
func (b *sideBuilder) why(message int) string {
	switch {
	case b.m.trained[message]:
		return batch.InLoss
	case b.m.nodes[message].Sampled == ttc.No:
		return batch.NotSampled
	case b.m.elsewhere != nil && b.m.elsewhere[message]:
		return batch.OtherRow
	}
	return batch.Policy
}
