package tokenview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSpans checks that byte tokens are decoded once per id and once all together, that tokens that depend on what
// precedes them are each decoded once more, and that no spans are claimed where the tokens don't make up the text.
func TestSpans(t *testing.T) {
	bytesOf := func(pieces ...string) func(ids []int32) string {
		return func(ids []int32) string {
			var b strings.Builder
			for _, id := range ids {
				b.WriteString(pieces[id])
			}
			return strings.ToValidUTF8(b.String(), "\ufffd")
		}
	}
	for _, c := range []struct {
		name   string
		decode func(ids []int32) string
		ids    []int32
		want   [][2]int
		most   int // how often it may decode
	}{
		{"bytes", bytesOf("a", " b"), []int32{0, 1, 0, 1}, [][2]int{{0, 1}, {1, 3}, {3, 4}, {4, 6}}, 3},
		{
			"a divided character", bytesOf("x", "\xe2\x82", "\xac"),
			[]int32{0, 1, 2, 0},
			[][2]int{{0, 1}, {1, 4}, {1, 4}, {4, 5}},
			4,
		},
		{
			"a space dropped at the beginning",
			func(ids []int32) string { return strings.TrimPrefix(bytesOf(" a", " b")(ids), " ") },
			[]int32{0, 1, 0},
			[][2]int{{0, 1}, {1, 3}, {3, 5}},
			5,
		},
		{
			"tokens that change each other",
			func(ids []int32) string { return strings.Repeat("z", len(ids)*len(ids)) },
			[]int32{0, 1, 2},
			nil, 8,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			d := &decoder{texts: map[int32]string{}, decode: func(ids []int32) (string, error) {
				asked++
				return c.decode(ids), nil
			}}
			side := Side{Tokens: make([]Token, len(c.ids))}
			if err := side.place(c.ids, d); err != nil {
				t.Fatal(err)
			}
			var got [][2]int
			for _, token := range side.Tokens {
				if token.Bytes != nil {
					got = append(got, *token.Bytes)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if asked > c.most {
				t.Errorf("it decoded %d times, at most %d were needed", asked, c.most)
			}
		})
	}
}
