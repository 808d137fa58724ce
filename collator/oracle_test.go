//go:build tokenizers

package collator

import (
	"sync"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/collator/tokenizer"
)

var loaded sync.Map

// oracleTokenizer loads a tokenizer from the oracle data once.
func oracleTokenizer(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	path := oracletest.Path(t, "chat", "tokens", "tokenizers", name)
	once, _ := loaded.LoadOrStore(path,
		sync.OnceValues(func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(path) }))
	tok, err := once.(func() (*tokenizer.Tokenizer, error))()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}
