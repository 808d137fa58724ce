package tokenizer

import (
	"bytes"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/chat"
	wire "github.com/nat-go/nat-go/ttc/json"
)

// finder finds added tokens in text as tokenizers' AddedVocabulary::find_matches does: it takes leftmost-longest
// matches, and then applies single_word, lstrip and rstrip.
type finder struct {
	tokens []addedToken // added tokens, sorted by content
	first  [256]bool    // bytes with which an added token can start
	lone   bool         // all added tokens start with the same byte
}

func newFinder(tokens []addedToken) *finder {
	f := &finder{tokens: tokens, lone: true}
	sort.SliceStable(f.tokens, func(i, j int) bool { return f.tokens[i].Content < f.tokens[j].Content })
	for _, t := range tokens {
		f.first[t.Content[0]] = true
		f.lone = f.lone && t.Content[0] == tokens[0].Content[0]
	}
	return f
}

// longestAt returns the longest token that starts at text[i:] and is allowed there.
func (f *finder) longestAt(text string, i int, may func(start, end int, t *addedToken) bool) *addedToken {
	var best *addedToken
	lo, hi := 0, len(f.tokens)
	for n := 0; i+n < len(text); n++ {
		c := int(text[i+n])
		tokens := f.tokens[lo:hi]
		reach := func(least int) int {
			return sort.Search(len(tokens), func(k int) bool {
				return len(tokens[k].Content) > n && int(tokens[k].Content[n]) >= least
			})
		}
		lo, hi = lo+reach(c), lo+reach(c+1)
		if lo >= hi {
			break
		}
		if t := &f.tokens[lo]; len(t.Content) == n+1 && may(i, i+n+1, t) {
			best = t
		}
	}
	return best
}

// found is an added token in text, including the white space it absorbs.
type found struct {
	chat.Span
	token *addedToken
}

// find appends the added tokens in text to out, with base added to their positions.
func (f *finder) find(out []found, text string, base int, may func(start, end int, t *addedToken) bool) []found {
	done := 0 // end of the last token in out
	for i := 0; i < len(text); {
		if f.lone && len(f.tokens) > 0 {
			n := strings.IndexByte(text[i:], f.tokens[0].Content[0])
			if n < 0 {
				break
			}
			i += n
		}
		if !f.first[text[i]] {
			i++
			continue
		}
		t := f.longestAt(text, i, may)
		if t == nil {
			i++
			continue
		}
		start, end := i, i+len(t.Content)
		i = end
		if t.SingleWord && touchesWord(text[:start], text[end:]) {
			continue
		}
		if t.LStrip {
			start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
		}
		if t.RStrip {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		out = append(out, found{chat.Span{Start: base + start, End: base + end}, t})
		done = end
	}
	return out
}

// touchesWord reports whether a word ends right before a position in text or begins there.
func touchesWord(before, after string) bool {
	last, _ := utf8.DecodeLastRuneInString(before) // U+FFFD, which isn't part of a word, if there is none
	first, _ := utf8.DecodeRuneInString(after)
	return isWord(last) || isWord(first)
}

// isWord reports whether r matches \w in Rust's regex: Alphabetic, Mark, Decimal_Number, Connector_Punctuation,
// Join_Control.
func isWord(r rune) bool {
	return unicode.IsLetter(r) ||
		unicode.In(r, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// specials holds the added tokens and finds where they split text.
type specials struct {
	early, late *finder              // tokens matched before and after normalising; late is nil if none is special
	byID        map[int32]addedToken // the special tokens, by id
	list        []addedToken         // the special tokens, in file order
	why         string               // why rows can't be encoded segment by segment; "" if they can
}

func newSpecials(s *shape) *specials {
	sp := &specials{byID: map[int32]addedToken{}}
	var early, late []addedToken
	var anySpecial, lateSpecial, strips, leadingSpace, rstrips, singleEarly, singleLate bool
	tokens, once := effective(s.added)
	if !once {
		sp.why = "an added token that is not special is listed twice with different flags"
	}
	for _, t := range tokens {
		if t.Special {
			sp.byID[t.ID] = t
			sp.list = append(sp.list, t)
			anySpecial = true
			lateSpecial = lateSpecial || t.Normalized
			strips = strips || t.LStrip || t.RStrip || trimmed(t.Content)
		} else if t.SingleWord {
			singleEarly = singleEarly || !t.Normalized
			singleLate = singleLate || t.Normalized
		}
		r, _ := utf8.DecodeRuneInString(t.Content)
		leadingSpace = leadingSpace || unicode.IsSpace(r)
		rstrips = rstrips || t.RStrip
		if t.Normalized {
			late = append(late, t)
		} else {
			early = append(early, t)
		}
	}
	sp.early = newFinder(early)
	if lateSpecial {
		sp.late = newFinder(late)
	}
	switch {
	case sp.why != "" || !anySpecial:
	case lateSpecial && !identity(s.parts["normalizer"]):
		sp.why = "a special token is matched in normalised text"
	case singleEarly || singleLate && lateSpecial:
		sp.why = "an added token that is not special matches whole words only"
	case leadingSpace && rstrips:
		sp.why = "an added token starts with the white space that another one absorbs"
	case strips && trimsOffsets(s.parts["post_processor"]):
		sp.why = "a special token absorbs white space and the post-processor trims it from offsets"
	}
	return sp
}

// effective merges duplicate entries of a token as the library does. The token is special if any entry is. The first
// special entry determines whether it is matched before or after normalising, and the last entry determines the other
// flags. once is false if the non-special entries of a token differ, because the library then matches it in more than
// one way.
func effective(added []addedToken) (tokens []addedToken, once bool) {
	place := map[string]int{}
	once = true
	for _, t := range added {
		i, again := place[t.Content]
		if !again {
			place[t.Content] = len(tokens)
			tokens = append(tokens, t)
			continue
		}
		first := tokens[i]
		if !first.Special && !t.Special && first != t {
			once = false
		}
		if first.Special {
			t.Normalized = first.Normalized
		}
		t.Special = first.Special || t.Special
		tokens[i] = t
	}
	return tokens, once
}

// trimmed reports whether offset trimming would shorten a token with this content.
func trimmed(content string) bool {
	first, _ := utf8.DecodeRuneInString(content)
	last, _ := utf8.DecodeLastRuneInString(content)
	return unicode.IsSpace(first) || unicode.IsSpace(last) || first == 'Ġ' || last == 'Ġ'
}

// identity reports whether a normalizer is absent or an empty sequence, and therefore changes nothing.
func identity(normalizer wire.Raw) bool {
	steps, _ := normalizer.Get("normalizers")
	for range steps.Elements() {
		return false
	}
	return !present(normalizer) || text(normalizer, "type") == "Sequence"
}

func trimsOffsets(raw wire.Raw) bool {
	return bytes.Contains(raw, []byte(`"ByteLevel"`)) || bytes.Contains(raw, []byte(`"RobertaProcessing"`))
}

// split returns the special tokens of text that are within template, in order.
func (sp *specials) split(text string, template []chat.Span) []found {
	within := func(start, end int, t *addedToken) bool { return !t.Special || covered(template, start, end) }
	all := sp.early.find(nil, text, 0, within)
	if sp.late != nil {
		all = sp.findLate(all, text, within)
	}
	only := all[:0]
	for _, f := range all {
		if f.token.Special {
			only = append(only, f)
		}
	}
	return only
}

// findLate adds the tokens that are matched after normalising (here the identity), in the text between the early
// tokens.
func (sp *specials) findLate(early []found, text string, within func(int, int, *addedToken) bool) []found {
	var all []found
	from := 0
	gap := func(to int) {
		base := from
		all = sp.late.find(all, text[from:to], from, func(start, end int, t *addedToken) bool {
			return within(base+start, base+end, t)
		})
	}
	for _, f := range early {
		gap(f.Start)
		all = append(all, f)
		from = f.End
	}
	gap(len(text))
	return all
}

// outside returns the first position of a special token's characters in text that are not entirely within template.
func (sp *specials) outside(text string, template []chat.Span) (at int, token string, is bool) {
	at = -1
	for _, t := range sp.list {
		for i := 0; ; {
			n := strings.Index(text[i:], t.Content)
			if n < 0 {
				break
			}
			start, end := i+n, i+n+len(t.Content)
			if !covered(template, start, end) && (at < 0 || start < at || start == at && len(t.Content) > len(token)) {
				at, token = start, t.Content
			}
			i = start + 1
		}
	}
	return at, token, at >= 0
}

func covered(spans []chat.Span, start, end int) bool {
	k := sort.Search(len(spans), func(k int) bool { return spans[k].End > start })
	return k < len(spans) && spans[k].Start <= start && end <= spans[k].End
}

// merge joins adjacent spans, so that a special token may span two adjacent pieces of template text. The spans
// must be sorted and disjoint.
func merge(spans []chat.Span, length int) ([]chat.Span, error) {
	var out []chat.Span
	for i, s := range spans {
		if s.Start < 0 || s.End < s.Start || s.End > length || i > 0 && s.Start < spans[i-1].End {
			return nil, refuse(CodeBadRequest, "template span [%d,%d) is out of order or beyond the text's %d bytes", s.Start, s.End, length)
		}
		if n := len(out); n > 0 && out[n-1].End == s.Start {
			out[n-1].End = s.End
		} else if s.End > s.Start {
			out = append(out, s)
		}
	}
	return out, nil
}
