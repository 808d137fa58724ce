package explain

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/internal/terminal/columns"
	"github.com/nat-go/nat-go/ttc/ledger"
)

//go:embed codes.yaml
var written string

// codes returns the pages for all codes, sorted by area and code.
var codes = sync.OnceValue(func() []ledger.Code {
	var pages map[string]map[string]ledger.Code
	if err := yaml.Unmarshal([]byte(written), &pages); err != nil {
		panic(err) // cannot happen: the file is embedded, and tests parse it
	}
	all := rows.Codes()
	for area, codes := range pages {
		for code, p := range codes {
			all = append(all, ledger.Code{Code: code, Area: area, Text: p.Text, Help: p.Help})
		}
	}
	slices.SortFunc(all, func(a, b ledger.Code) int {
		return cmp.Or(cmp.Compare(slices.Index(areas, a.Area), slices.Index(areas, b.Area)),
			cmp.Compare(a.Code, b.Code))
	})
	return all
})

// areas are the stages of a run, in order, followed by the subjects of findings.
var areas = []string{"source", "build", "gate", "curate", "write", "collate", "teacher", "submit", "config", "dataset"}

// single parses and returns the page for a code. A run needs only a few pages, and all pages together would take a
// lot of memory.
type single = func() ledger.Code

var singles = sync.OnceValue(index)

// index finds the pages in codes.yaml without parsing them. A page consists of the two lines after its code.
func index() map[string]single {
	all, area, lines := map[string]single{}, "", strings.Split(written, "\n")
	for i, line := range lines {
		code, within := strings.CutPrefix(strings.TrimSuffix(line, ":"), "  ")
		if !within {
			area = code
		} else if !strings.HasPrefix(code, " ") {
			all[code] = page(area, code, lines[i+1:i+3])
		}
	}
	for _, c := range rows.Codes() {
		all[c.Code] = func() ledger.Code { return c }
	}
	return all
}

func page(area, code string, lines []string) single {
	return func() ledger.Code {
		c := ledger.Code{Code: code, Area: area}
		if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &c); err != nil {
			panic(err) // cannot happen: tests compare the pages with the parsed file
		}
		return c
	}
}

// Code returns the page for a code.
func Code(code string) (page ledger.Code, ok bool) {
	if parse := singles()[code]; parse != nil {
		return parse(), true
	}
	return page, false
}

// Known reports whether a drop reason has a page.
func Known(r ledger.Reason) bool { return singles()[string(r)] != nil }

// Find returns the page for a code, the pages in an area or, for "", all pages. The error for an unknown code
// suggests a similar one, if there is any.
func Find(what string) ([]ledger.Code, error) {
	if page, ok := Code(strings.TrimSpace(what)); ok {
		return []ledger.Code{page}, nil
	}
	if plugin, code, ok := strings.Cut(what, "/"); ok {
		return nil, fmt.Errorf("%q is a reason from the plugin %q: only its author can say what %q means", what,
			plugin, code)
	}
	var pages []ledger.Code
	for _, c := range codes() {
		if what == "" || c.Area == what {
			pages = append(pages, c)
		}
	}
	if len(pages) > 0 {
		return pages, nil
	}
	near := finding.Nearest(what, lists.Map(codes(), func(c ledger.Code) string { return c.Code }))
	if near != "" {
		near = "; did you mean " + near + "?"
	}
	return nil, fmt.Errorf("unknown code %q%s; `nat-go explain` lists all", what, near)
}

// Text formats a single page in full, and several pages as a list. Lines have at most width columns; 0 means no limit.
func Text(pages []ledger.Code, width int) string {
	var b strings.Builder
	if len(pages) == 1 {
		p := pages[0]
		fmt.Fprintf(&b, "%s (%s)\n\n%s\n\n%s\n", p.Code, p.Area, paragraph(p.Text, width),
			paragraph("What to do: "+p.Help, width))
		return b.String()
	}
	table := &columns.Table{Indent: 2}
	area := ""
	for _, p := range pages {
		if p.Area != area {
			b.WriteString(table.Text(width))
			if table.Rows = nil; area != "" {
				b.WriteByte('\n')
			}
			area = p.Area
			fmt.Fprintf(&b, "%s\n", area)
		}
		table.Add(columns.Pad(p.Code, codeWidth), firstSentence(p.Text))
	}
	b.WriteString(table.Text(width))
	return b.String()
}

// codeWidth is the width of the code column. Nearly all codes fit in it, and it aligns the lists of all areas.
const codeWidth = 24

func paragraph(text string, width int) string {
	if width == 0 {
		return text
	}
	return strings.Join(columns.Wrap(text, width), "\n")
}

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		return s[:i+1]
	}
	return s
}

//go:embed page.md
var pageText string

// Page formats pages as one Markdown page. In the text of page.md, it replaces each line {{AREA TITLE}} with a table of
// that area.
func Page(pages []ledger.Code) string {
	rows := map[string]string{}
	for _, p := range pages {
		rows[p.Area] += fmt.Sprintf("| `%s` | %s | %s |\n", p.Code, cell(p.Text), cell(p.Help))
	}
	var b strings.Builder
	for line := range strings.Lines(pageText) {
		marker, isMarker := strings.CutPrefix(line, "{{")
		if !isMarker {
			b.WriteString(line)
			continue
		}
		area, title, _ := strings.Cut(strings.TrimRight(marker, "}\n"), " ")
		if rows[area] != "" {
			fmt.Fprintf(&b, "\n## %s\n\n| code | what it means | what to do |\n|---|---|---|\n%s", title, rows[area])
		}
	}
	return b.String()
}

// cell escapes text for use in a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}
