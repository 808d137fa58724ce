//go:build tokenizers && cgo

package tokenizer

import "github.com/daulet/tokenizers"

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
	enc := Encoding{IDs: res.IDs, Offsets: make([]Span, len(res.Offsets))}
	for i, o := range res.Offsets {
		enc.Offsets[i] = Span{int(o[0]), int(o[1])}
	}
	return enc, true
}

func (d daulet) decode(ids []uint32, skipSpecial bool) (string, bool) {
	text, err := d.lib.DecodeErr(ids, skipSpecial)
	return text, err == nil
}

func (d daulet) close() { _ = d.lib.Close() }
