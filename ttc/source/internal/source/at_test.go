package source_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func TestAt(t *testing.T) {
	entry, err := json.Parse([]byte(`{
		"score": 1, "a.b": 2, "a": {"b": 3, "c": null}, "list": [{"text": "x"}, {"text": "y"}],
		"cell": "{\"judge\": {\"score\": 0.5}}", "text": "{no object"
	}`), json.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"score":            "1",
		"a.b":              "2",
		"a.c":              "null",
		"list.1.text":      `"y"`,
		"list.0":           `{"text": "x"}`,
		"cell.judge.score": "0.5",
		"a.b.c":            "",
		"a.d":              "",
		"a.":               "",
		"list.2":           "",
		"list.-1":          "",
		"list.text":        "",
		"text.no":          "",
		"score.x":          "",
		"x.y":              "",
		"":                 "",
		".":                "",
	} {
		t.Run(key, func(t *testing.T) {
			got := source.At(entry, key)
			if diff := cmp.Diff(want, string(got)); diff != "" || (got != nil) != (want != "") {
				t.Errorf("%v -want +got:\n%s", got != nil, diff)
			}
		})
	}
}

func TestNoScore(t *testing.T) {
	for name, c := range map[string]struct {
		entry string
		want  []string
	}{
		"in metadata": {`{"metadata": {"judge": {"score": 0.5, "id": 7, "tokens": 9}}}`, []string{
			`nothing has a score; there are numbers in "metadata.judge.score": to use them, add ` +
				`--map score=metadata.judge.score`,
		}},
		"in a judgement": {`{"evaluation": {"correctness": true, "why": "it is"}}`, []string{
			`nothing has a score; there are numbers in "evaluation.correctness": to use them, add ` +
				`--map score=evaluation.correctness`,
		}},
		"several": {`{"scores": {"helpful": 1, "safe": 2}}`, []string{
			`nothing has a score; there are numbers in "scores.helpful" and "scores.safe": to use them, add ` +
				`--map score=scores.helpful`,
		}},
		"in a list": {`{"rating": [{"user_id": "u", "value": 3}]}`, []string{
			`nothing has a score; there are numbers in "rating.0.value": to use them, add --map score=rating.0.value`,
		}},
		"in a cell": {`{"metadata": "{\"rating\": 4}"}`, []string{
			`nothing has a score; there are numbers in "metadata.rating": to use them, add --map score=metadata.rating`,
		}},
		"a text": {`{"judge": "good", "metadata": {"size": 3}}`, []string{
			`not all values of "judge" are numbers, so it is not read: nothing has a score`,
		}},
		"none": {`{"metadata": {"size": 3, "when": {"id": 3}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := source.Head{Entries: []json.Raw{json.Raw(c.entry)}}
			var r source.Reading
			r.NoScore(h.Columns())
			if diff := cmp.Diff(c.want, r.Guessed); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestWithinLongTexts checks that a text with very many objects isn't looked into: the limits of the entry don't cover
// what its texts hold.
func TestWithinLongTexts(t *testing.T) {
	for name, c := range map[string]struct {
		objects int64
		want    bool
	}{
		"a few":  {10, true},
		"no end": {source.InTexts.Objects + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			entry := json.Raw(`{"cell":"[` + strings.Repeat("{},", int(c.objects)-1) + `{}]"}`)
			if v := source.At(entry, "cell.0"); (v != nil) != c.want {
				t.Errorf("%s, %v", v, v != nil)
			}
		})
	}
}

// TestPaths checks which paths are found: through the first element of a list and objects within texts, no deeper than
// six keys, and none whose value is null everywhere.
func TestPaths(t *testing.T) {
	h := source.Head{Entries: []json.Raw{
		json.Raw(`{"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}, "list": [{"x": 1}, {"y": 2}]}`),
		json.Raw(`{"cell": "{\"judge\": 0.5}", "none": {"at all": null}, "a": {"now": null}}`),
		json.Raw(`{"a": {"now": 3}}`),
	}}
	var got []string
	for _, c := range h.Paths() {
		got = append(got, c.Key)
	}
	want := []string{"a.b", "a.b.c", "a.b.c.d", "a.b.c.d.e", "a.b.c.d.e.f", "list.0", "list.0.x", "cell.judge", "a.now"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
