package yamldoc

import (
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
)

// Source is text that nodes come from: a file, or an override on the command line.
type Source struct {
	Name  string
	lines []string
	masks []mask

	at    int // number of the line that runes caches; a file may be a single line with many findings
	runes []rune
}

// line returns the characters of a line, or none if the line doesn't exist.
func (s *Source) line(n int) []rune {
	if n < 1 || n > len(s.lines) {
		return nil
	}
	if s.at != n {
		s.at, s.runes = n, []rune(s.lines[n-1])
	}
	return s.runes
}

// mask hides a secret's characters in snippets.
type mask struct{ line, from, to int } // columns count from 1; to is exclusive

func splitLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

// continues reports whether a line can still belong to the multi-line scalar n: it is blank, or indented more deeply
// than n's key.
func (s *Source) continues(n *yaml.Node, line int) bool {
	indent := func(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }
	return strings.TrimSpace(s.lines[line-1]) == "" || indent(s.lines[line-1]) > indent(s.lines[n.Line-1])
}

// NewSource creates a source from command-line text, for nodes put into a document with Set.
func NewSource(text string) *Source {
	return &Source{Name: finding.CommandLine, lines: splitLines(text)}
}

// HideFrom masks the first line from the given column onwards.
func (s *Source) HideFrom(column int) {
	s.masks = append(s.masks, mask{1, column, utf8.RuneCountInString(s.lines[0]) + 1})
}

// ReportAt attaches a finding to a line and columns.
func (s *Source) ReportAt(line, col, end int, ptr string, f finding.Finding) finding.Finding {
	f.Pointer = ptr
	return s.place(f, line, col, end)
}

func (s *Source) reportAs(n *yaml.Node, o origin, ptr string, f finding.Finding) finding.Finding {
	col, end := s.span(n, o)
	return s.ReportAt(n.Line, col, end, ptr, f)
}

// place sets file, line and columns, clamped to the text, and builds the snippet.
func (s *Source) place(f finding.Finding, line, col, end int) finding.Finding {
	f.File = s.Name
	f.Line = min(max(line, 1), max(len(s.lines), 1))
	width := len(s.line(f.Line))
	f.Column = min(max(col, 1), width+1)
	f.EndColumn = min(max(end, f.Column+1), max(width+1, f.Column))
	f.Snippet = s.snippet(f.Line, f.Column, f.EndColumn)
	return f
}

// span returns the columns of a scalar's first line or, for any other node, of its first character.
func (s *Source) span(n *yaml.Node, o origin) (from, to int) {
	from = n.Column
	if n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(s.lines) {
		return from, from + 1
	}
	line := s.line(n.Line)
	at := from - 1
	if at < 0 || at >= len(line) {
		return from, from + 1
	}
	for at < len(line) && (line[at] == '!' || line[at] == '&') { // skip a tag or anchor before the scalar
		for at < len(line) && line[at] != ' ' {
			at++
		}
		for at < len(line) && line[at] == ' ' {
			at++
		}
	}
	if at >= len(line) {
		return from, from + 1
	}
	switch line[at] {
	case '"', '\'':
		if n := quoted(line[at:]); n > 0 {
			return from, at + n + 1
		}
		return from, len(line) + 1
	case '|', '>':
		return from, from + 1
	}
	written := n.Value
	if o.rewrote {
		written = o.written
	}
	if w := []rune(written); at+len(w) <= len(line) && string(line[at:at+len(w)]) == written {
		return from, max(at+len(w)+1, from+1)
	}
	return from, len(line) + 1
}
