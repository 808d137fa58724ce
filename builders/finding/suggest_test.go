package finding

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// TestNearestFindsOneEdit checks that a single edit in a six-letter word is always recovered.
func TestNearestFindsOneEdit(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{6,12}`).Draw(t, "word")
		at := rapid.IntRange(0, len(word)-2).Draw(t, "at")
		var wrong string
		switch rapid.IntRange(0, 3).Draw(t, "edit") {
		case 0:
			wrong = word[:at] + word[at+1:]
		case 1:
			wrong = word[:at] + "q" + word[at:]
		case 2:
			wrong = word[:at] + "q" + word[at+1:]
		default:
			wrong = word[:at] + string(word[at+1]) + string(word[at]) + word[at+2:]
		}
		if got := Nearest(wrong, []string{"zzzzzzzzzz", word, "yyyy"}); got != word {
			t.Fatalf("%s -> %s, want %s", wrong, got, word)
		}
	})
}

// TestNearestOfShortWords checks that in a short word two swapped letters count as one mistake, and so does an extra
// letter; anything more is another word.
func TestNearestOfShortWords(t *testing.T) {
	words := []string{"pairs", "size", "top"}
	for typed, want := range map[string]string{
		"apirs": "pairs", "szie": "size", "sze": "size", "tpo": "top", "zzzz": "",
	} {
		t.Run(typed, func(t *testing.T) {
			if got := Nearest(typed, words); got != want {
				t.Errorf("%s: got %q, want %q", typed, got, want)
			}
		})
	}
}
