package tokenizer

import (
	"unicode/utf8"
	"unsafe"
)

// byteTexts holds the text of each id in a byte-level vocabulary, in which each character of a token encodes one byte.
type byteTexts struct {
	all   []byte
	start []int32 // the index in all at which each id's text begins, followed by len(all)
}

// newByteTexts returns nil if the decoder isn't ByteLevel, an id is too large, or two tokens share an id.
func newByteTexts(s *shape) *byteTexts {
	const maxBytes = 4 << 20
	if text(s.parts["decoder"], "type") != "ByteLevel" || s.maxID() >= maxBytes {
		return nil
	}
	tokens := make([]string, s.maxID()+1)
	for token, id := range s.vocab {
		if tokens[id] != "" {
			return nil
		}
		tokens[id] = token
	}
	for i := range s.added {
		tokens[s.added[i].ID] = s.added[i].Content
	}
	byteOf := map[rune]byte{}
	next := rune(0x100)
	for b := range 0x100 {
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			byteOf[rune(b)] = byte(b)
			continue
		}
		byteOf[next] = byte(b)
		next++
	}
	texts := &byteTexts{start: make([]int32, 1, len(tokens)+1)}
	for _, token := range tokens {
		start := len(texts.all)
		for _, r := range token {
			b, known := byteOf[r]
			if !known { // a token with a character that doesn't encode a byte is its own text
				texts.all = append(texts.all[:start], token...)
				break
			}
			texts.all = append(texts.all, b)
		}
		texts.start = append(texts.start, int32(len(texts.all)))
	}
	return texts
}

// decode returns the text of ids, or false for cases that only the library handles: ids without a token, and bytes that
// don't form UTF-8.
func (t *byteTexts) decode(ids []int32) (string, bool) {
	text := make([]byte, 0, 6*len(ids))
	for _, id := range ids {
		part := t.of(id)
		if len(part) == 0 {
			return "", false
		}
		text = append(text, part...)
	}
	return unsafe.String(unsafe.SliceData(text), len(text)), utf8.Valid(text)
}

// of returns the text of an id, which is empty for an id without a token.
func (t *byteTexts) of(id int32) []byte {
	if id < 0 || int(id) >= len(t.start)-1 {
		return nil
	}
	return t.all[t.start[id]:t.start[id+1]]
}

// are reports whether decode returns text for ids. If not, the library may still decode them to text.
func (t *byteTexts) are(ids []int32, text string) bool {
	rest := text
	for _, id := range ids {
		part := t.of(id)
		if len(part) == 0 || len(rest) < len(part) || rest[:len(part)] != string(part) {
			return false
		}
		rest = rest[len(part):]
	}
	return rest == "" && utf8.ValidString(text)
}
