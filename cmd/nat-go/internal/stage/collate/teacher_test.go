//go:build tokenizers

package collate

import (
	"os"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/internal/tokenizertest"
)

// TestSameTokenizer checks the comparison of tokenizers for a server that can't tokenise.
func TestSameTokenizer(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, folder := range []string{"mine", "same", "other"} {
		data := tokenizertest.Toy()
		if folder == "other" {
			data = []byte(strings.Replace(string(data), `"a":`, `"a2":`, 1))
		}
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(folder+"/tokenizer.json", data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tok, err := tokenizer.Load("mine")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	for _, c := range []struct{ name, model, own, want string }{
		{"", "", "mine", "can't tokenise: specify its tokenizer"},
		{"", "org/mine", "mine", ""},
		{"mine/", "whatever", "models/mine/tokenizer.json", ""},
		{"same", "", "mine", ""},
		{"elsewhere/model", "", "mine", "set tokenizer_name to a folder"},
		{"other", "", "mine", "other"},
	} {
		section := config.Collator{Tokenizer: c.own, Teacher: &config.Teacher{}}
		x := teaching{config: &section, tokenizer: tok}
		s := &config.Server{Endpoint: "http://127.0.0.1:1", Protocol: "atropos", Model: c.model, TokenizerName: c.name}
		client, err := x.client(s, nil)
		if err == nil {
			client.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
