package tokenizer

import (
	"cmp"
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
)

// EncodeRow appends to dst the tokens of text for a training row: special tokens only where their characters are
// entirely within template (byte ranges of the text, sorted and disjoint; adjacent ones count as one), plain text
// everywhere else; no truncation, no padding, nothing added. Appended offsets refer to text.
//
// The ids equal Hugging Face's encoding of the whole text, for every text whose look-alikes are all within template. If
// the tokenizer can't encode in segments (see Segmentable) and there are look-alikes outside template, EncodeRow
// returns an error with CodeSpecialInText. On an error dst is unchanged.
func (t *Tokenizer) EncodeRow(dst *Encoding, text string, template []chat.Span) error {
	template, err := merge(template, len(text))
	if err := cmp.Or(checkText(text), err); err != nil {
		return err
	}
	if t.specials.why != "" {
		return t.encodeWhole(dst, text, template)
	}
	before, from := *dst, 0
	for _, f := range t.specials.split(text, template) {
		if err = t.appendSegment(dst, text, from, f.Start); err != nil {
			break
		}
		dst.IDs = append(dst.IDs, f.token.ID)
		dst.Offsets = append(dst.Offsets, f.Span)
		from = f.End
	}
	if err == nil {
		err = t.appendSegment(dst, text, from, len(text))
	}
	if err != nil {
		*dst = before
	}
	return err
}

// Segmentable reports whether rows are encoded segment by segment, and if not, why.
func (t *Tokenizer) Segmentable() (ok bool, why string) {
	return t.specials.why == "", t.specials.why
}

// appendSegment encodes text[from:to], which is between two special tokens.
func (t *Tokenizer) appendSegment(dst *Encoding, text string, from, to int) error {
	if from == to {
		return nil
	}
	key := segment{text: text[from:to], continued: from > 0 && t.continues}
	if enc, ok := t.cache.get(key); ok {
		dst.append(enc, from)
		return nil
	}
	first := len(dst.IDs)
	if err := t.encodeSegment(dst, key, from); err != nil {
		if e, ok := err.(*Error); ok && e.Offset >= 0 {
			e.Offset += from
		}
		return err
	}
	if t.pieces == nil || t.cache.again(key.text) {
		enc := Encoding{}
		enc.append(Encoding{dst.IDs[first:], dst.Offsets[first:]}, -from)
		t.cache.put(key, enc)
	}
	return nil
}

// encodeSegment appends the tokens of a segment to dst, with base added to their offsets.
func (t *Tokenizer) encodeSegment(dst *Encoding, s segment, base int) error {
	library := func(text string) (Encoding, error) {
		return t.encode(text, false, variant{specialsAsText: true, continued: s.continued})
	}
	if t.pieces != nil && !s.continued && len(s.text) <= maxPiecesBytes && strings.IndexByte(s.text, 0) < 0 {
		before := *dst
		if t.pieces.encode(dst, s.text, base, library) == nil {
			return nil
		}
		*dst = before
	}
	enc, err := library(s.text)
	dst.append(enc, base)
	return err
}

// encodeWhole encodes a row for a tokenizer whose segments depend on each other.
func (t *Tokenizer) encodeWhole(dst *Encoding, text string, template []chat.Span) error {
	if at, token, is := t.specials.outside(text, template); is {
		return refuseAt(at, CodeSpecialInText, "%q at byte %d is not from the template, and this tokenizer cannot keep it as plain text (%s)", token, at, t.specials.why)
	}
	enc, err := t.encode(text, false, variant{})
	if err != nil {
		return err
	}
	dst.append(enc, 0)
	return nil
}
