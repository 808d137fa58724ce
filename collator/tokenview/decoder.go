package tokenview

import (
	"strings"
	"unicode/utf8"
)

// decoder decodes tokens one by one. It decodes each id only once, because decoding takes most of the time needed to
// print a long row.
type decoder struct {
	decode func(ids []int32) (string, error)
	texts  map[int32]string // texts of single ids
}

func (d *decoder) token(id int32) (string, error) {
	if text, known := d.texts[id]; known {
		return text, nil
	}
	text, err := d.decode([]int32{id})
	if err == nil {
		d.texts[id] = text
	}
	return text, err
}

// adds returns the text that the n tokens starting at i contribute.
type adds func(ids []int32, i, n int) (string, error)

// textAlone decodes tokens by themselves. It works for byte-level tokenizers, in which a token's text does not depend
// on the preceding token.
func (d *decoder) textAlone(ids []int32, i, n int) (string, error) {
	if n == 1 {
		return d.token(ids[i])
	}
	return d.decode(ids[i : i+n])
}

// textAfter decodes tokens together with the preceding one. It also works for tokenizers that drop a space at
// the beginning of a text, where a token's text depends on the preceding token.
func (d *decoder) textAfter(ids []int32, i, n int) (string, error) {
	if i == 0 {
		return d.textAlone(ids, i, n)
	}
	before, err := d.token(ids[i-1])
	if err != nil {
		return "", err
	}
	text, err := d.decode(ids[i-1 : i+n])
	return strings.TrimPrefix(text, before), err
}

// spans returns the position of each token in the text, or nil if the decoded tokens don't make up the text. Tokens
// that share a character share its position.
func (d *decoder) spans(ids []int32, whole string, add adds) ([][2]int, error) {
	spans, at := make([][2]int, len(ids)), 0
	for i := 0; i < len(ids); {
		n := 1
		text, err := add(ids, i, n)
		for err == nil && strings.HasSuffix(text, "\ufffd") && n < utf8.UTFMax && i+n < len(ids) {
			n++
			text, err = add(ids, i, n)
		}
		if err != nil || !strings.HasPrefix(whole[min(at, len(whole)):], text) {
			return nil, err
		}
		for k := range n {
			spans[i+k] = [2]int{at, at + len(text)}
		}
		at, i = at+len(text), i+n
	}
	if at != len(whole) {
		return nil, nil
	}
	return spans, nil
}
