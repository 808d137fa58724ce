//go:build !(tokenizers && cgo)

package tokenizer

const available = false

func newEngine([]byte, bool) (engine, error) { return nil, ErrUnavailable }
