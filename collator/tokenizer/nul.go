package tokenizer

import (
	"strings"

	"github.com/nat-go/nat-go/ttc/chat"
	wire "github.com/nat-go/nat-go/ttc/json"
)

// The binding passes text as C strings, which end at a NUL. Text that contains a NUL is escaped as below and passed to
// an instance that decodes the escapes before doing anything else (the first steps of its normalizer) and encodes them
// again after everything else (the last steps of its decoder):
//
//	NUL  <-> U+0001 U+0002
//	0001 <-> U+0001 U+0003
//
// After escaping, every U+0001 is followed by U+0002 or U+0003, so both directions are unambiguous. Each character is
// one byte, which makes offsets easy to map.
const (
	nulMark, nulZero, nulSelf = '\x01', '\x02', '\x03'
)

// escapeNUL returns the escaped text and, for each byte offset in it (its length included), the offset into text.
func escapeNUL(text string) (escaped string, offsets []int) {
	var b strings.Builder
	b.Grow(len(text) + 16)
	offsets = make([]int, 0, len(text)+17)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case 0:
			b.WriteString(string(nulMark) + string(nulZero))
			offsets = append(offsets, i, i)
		case nulMark:
			b.WriteString(string(nulMark) + string(nulSelf))
			offsets = append(offsets, i, i)
		default:
			b.WriteByte(c)
			offsets = append(offsets, i)
		}
	}
	return b.String(), append(offsets, len(text))
}

var unescapeNUL = strings.NewReplacer(string(nulMark)+string(nulZero), "\x00", string(nulMark)+string(nulSelf),
	string(nulMark)).Replace

// unmapSpan maps a span of the escaped text to a span of the original. An end within an escape maps to the end of the
// character that the escape encodes.
func unmapSpan(s chat.Span, offsets []int) chat.Span {
	start, end := offsets[s.Start], offsets[s.End]
	if s.End > 0 && offsets[s.End-1] == end {
		end++
	}
	if s.Start == s.End {
		start = end
	}
	return chat.Span{Start: start, End: end}
}

// nulNormalizer turns the first character of an escape into the character it encodes and drops the second. Replacing
// the pair at once would give the result the second character's offset, and text that starts with an escape would no
// longer start at 0, which is where Metaspace's "first" prepends.
func nulNormalizer(raw wire.Raw) wire.Raw {
	steps := `{"type":"Replace","pattern":{"Regex":"\\x01(?=\\x02)"},"content":"\u0000"},` +
		`{"type":"Replace","pattern":{"Regex":"(?<=\\x00)\\x02"},"content":""},` +
		`{"type":"Replace","pattern":{"Regex":"(?<=\\x01)\\x03"},"content":""}`
	if present(raw) {
		steps += "," + string(raw)
	}
	return wire.Raw(`{"type":"Sequence","normalizers":[` + steps + `]}`)
}

// nulDecoder appends the steps that encode NUL. It leaves a file without a decoder unchanged, because joining tokens
// with spaces can't be expressed in a sequence.
func nulDecoder(raw wire.Raw) wire.Raw {
	if !present(raw) {
		return wire.Raw("null")
	}
	return wire.Raw(`{"type":"Sequence","decoders":[` + string(raw) +
		`,{"type":"Replace","pattern":{"String":"\u0001"},"content":"\u0001\u0003"}` +
		`,{"type":"Replace","pattern":{"String":"\u0000"},"content":"\u0001\u0002"}]}`)
}

func present(raw wire.Raw) bool { return raw.Kind() > wire.Null }
