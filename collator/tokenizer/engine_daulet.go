//go:build tokenizers && cgo

package tokenizer

import (
	"github.com/daulet/tokenizers"

	"github.com/nat-go/nat-go/ttc/chat"
)

const available = true

type daulet struct{ lib *tokenizers.Tokenizer }

func newEngine(data []byte, specialsAsText bool) (engine, error) {
	var opts []tokenizers.TokenizerOption
	if specialsAsText {
		opts = append(opts, tokenizers.WithEncodeSpecialTokens())
	}
	lib, err := tokenizers.FromBytes(data, opts...)
	if err != nil {
		return nil, err
	}
	return daulet{lib}, nil
}

func (d daulet) encode(text string, addSpecial bool) (Encoding, bool) {
	res, err := d.lib.EncodeWithOptionsErr(text, addSpecial, tokenizers.WithReturnOffsets())
	if err != nil || len(res.Offsets) != len(res.IDs) {
		return Encoding{}, false
	}
	enc := Encoding{IDs: make([]int32, len(res.IDs)), Offsets: make([]chat.Span, len(res.Offsets))}
	for i, o := range res.Offsets {
		enc.IDs[i] = int32(res.IDs[i])
		enc.Offsets[i] = chat.Span{Start: int(o[0]), End: int(o[1])}
	}
	return enc, true
}

func (d daulet) decode(ids []int32, skipSpecial bool) (string, bool) {
	theirs := make([]uint32, len(ids))
	for i, id := range ids {
		theirs[i] = uint32(id)
	}
	text, err := d.lib.DecodeErr(theirs, skipSpecial)
	return text, err == nil
}

func (d daulet) close() { _ = d.lib.Close() }
