package recordlog

import (
	"encoding/hex"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestContents checks, for records of every kind, that curation and the record's other users compute the same hash of
// its content. Data sets and marks name records by these hashes, so the hashes must not change.
func TestContents(t *testing.T) {
	g := sample(t, "g")
	hashes, contents := g.Hashes(), g.Contents()
	kinds := map[builders.Kind]bool{}
	for i := range g.Records {
		kinds[g.Records[i].Record.Kind()] = true
		if contents[i] != hashes[i].Content {
			t.Errorf("record %d: content %x, but %x in its hashes", i, contents[i], hashes[i].Content)
		}
	}
	if len(contents) != len(g.Records) || len(kinds) != 4 {
		t.Fatalf("%d contents of %d records of %d kinds", len(contents), len(g.Records), len(kinds))
	}
	for i, want := range []string{
		"7c198d0b833732fa4183ff5030575f71",
		"6a29edb42451aa85cdb10dc97848c2db",
		"6a29edb42451aa85cdb10dc97848c2db",
		"6bf564c753c8b870aa785e482e4c5e75",
		"20417cac980a224f6504fc5d34533f84",
		"b6ce03f43fb401af29b8424bb380d867",
	} {
		if got := hex.EncodeToString(contents[i][:]); got != want {
			t.Errorf("record %d: %s, want %s", i, got, want)
		}
	}
}

// TestPromptOfMessages checks that conversations with the same beginning share a prompt, regardless of their answers.
func TestPromptOfMessages(t *testing.T) {
	say := func(role, text string) chat.Message { return chat.Message{Role: role, Form: chat.Text, Text: text} }
	conversation := func(question, answer string) builders.Record {
		return &builders.Demonstration{
			Messages: builders.Content{Messages: []chat.Message{say("user", question), say("assistant", answer)}},
		}
	}
	b := NewBuilder([]string{"x"})
	b.Begin(&ttc.Group{Key: "g", Examples: []*ttc.Example{{ID: "a"}}})
	for _, r := range []builders.Record{conversation("q", "1"), conversation("q", "2"), conversation("r", "1")} {
		r.(*builders.Demonstration).Messages.Ref.Part = builders.InlineMessages
		if err := b.Record(0, r); err != nil {
			t.Fatal(err)
		}
	}
	h := b.Group().Hashes()
	if h[0].Prompt != h[1].Prompt || h[0].Content == h[1].Content {
		t.Error("two answers to one question: prompts differ, or contents don't")
	}
	if h[0].Prompt == h[2].Prompt {
		t.Error("two questions have the same prompt")
	}
}
