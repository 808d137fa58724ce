package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestExportedAnswers: a file has the answers to what the page asks about each record that it holds, and no others.
func TestExportedAnswers(t *testing.T) {
	r := open(t, testRun(t, 12))
	for _, c := range []struct {
		export Export
		held   Exported
		want   []int // records
	}{
		{
			Export{Where: `builder == "moves"`, Limit: 3, Bytes: ExportBytes},
			Exported{Records: 3, Fit: 6, Of: 12, Bytes: ExportBytes},
			[]int{1, 3, 5},
		},
		{
			Export{Where: `text contains "answer 11"`, Bytes: ExportBytes},
			Exported{Records: 1, Fit: 1, Of: 12, Bytes: ExportBytes},
			[]int{12},
		},
		{Export{Bytes: 1}, Exported{Fit: 12, Of: 12, Full: true, Bytes: 1}, nil},
	} {
		t.Run(fmt.Sprint(c.export), func(t *testing.T) {
			var file bytes.Buffer
			held, err := r.Export(t.Context(), &file, c.export)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.held, held); diff != "" {
				t.Error(diff)
			}
			_, rest, _ := bytes.Cut(file.Bytes(), []byte(`id="index">`))
			text, _, _ := bytes.Cut(rest, []byte("</script>"))
			var i index
			if err := json.Unmarshal(text, &i); err != nil {
				t.Fatal(err)
			}
			want := []string{"overview"}
			for _, n := range c.want {
				want = append(want, fmt.Sprintf("record?from=0&n=%d", n), fmt.Sprintf("written?n=%d", n))
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(maps.Keys(i.Answers))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
