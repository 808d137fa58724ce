// Package explain finds the pages of drop reasons and finding codes. The pages themselves stand in package ledger, beside the
// codes, so that a code can't be added without one.
package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/ledger"
)

// Page is what is to be said of a code.
type Page struct {
	Code string `json:"code"`
	Area string `json:"area"` // stage of a drop reason, or what a finding is about
	Text string `json:"text"`
	Help string `json:"help"`
}

// Find returns the page of a code, all pages of an area, or all there are. The error of an unknown code names those that look
// like it.
func Find(what string) ([]Page, error) {
	if page, ok := ledger.Explain(strings.TrimSpace(what)); ok {
		return []Page{Page(page)}, nil
	}
	if plugin, code, ok := strings.Cut(what, "/"); ok {
		return nil, fmt.Errorf("%q is a reason of the plugin %q's own: its author says what %q means", what, plugin, code)
	}
	var pages []Page
	for _, c := range ledger.Codes() {
		if what == "" || c.Area == what {
			pages = append(pages, Page(c))
		}
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("there is no code %q%s; `nat-go explain` lists all", what, alike(what))
	}
	return pages, nil
}

// alike names the codes that are nearest to a text.
func alike(what string) string {
	type near struct {
		code     string
		distance int
	}
	var all []near
	for _, c := range ledger.Codes() {
		if d := distance(strings.ToLower(what), strings.ToLower(c.Code)); d <= 2 || strings.Contains(c.Code, what) {
			all = append(all, near{c.Code, d})
		}
	}
	if len(all) == 0 {
		return ""
	}
	slices.SortStableFunc(all, func(a, b near) int { return a.distance - b.distance })
	return fmt.Sprintf("; did you mean %s?", all[0].code)
}

// distance is Levenshtein's, in bytes, at most 100 of each.
func distance(a, b string) int {
	a, b = a[:min(len(a), 100)], b[:min(len(b), 100)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// Text prints one page whole, and several as a list.
func Text(pages []Page) string {
	var b strings.Builder
	if len(pages) == 1 {
		p := pages[0]
		fmt.Fprintf(&b, "%s (%s)\n\n%s\n\nWhat to do: %s\n", p.Code, p.Area, p.Text, p.Help)
		return b.String()
	}
	area := ""
	for _, p := range pages {
		if p.Area != area {
			if area != "" {
				b.WriteByte('\n')
			}
			area = p.Area
			fmt.Fprintf(&b, "%s\n", area)
		}
		fmt.Fprintf(&b, "  %-26s %s\n", p.Code, firstSentence(p.Text))
	}
	return b.String()
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}
