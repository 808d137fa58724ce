package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Source is a text that nodes come from: a file, or an override on the command line.
type Source struct {
	Name  string
	lines []string
	masks []mask
}

// mask hides a secret's characters in snippets.
type mask struct{ line, from, to int } // columns from 1, to exclusive

// Document is a YAML mapping whose nodes know where they were written - in one file, or in several that were merged.
// Aliases and merge keys are resolved when it is parsed, so every node has one place and the tree is a tree.
type Document struct {
	Root    *yaml.Node
	origins map[*yaml.Node]origin
	secrets map[*yaml.Node]bool
}

type origin struct {
	src     *Source
	written string // text before Rewrite
	rewrote bool
}

// Limits bound what a text may cost. They are far above what people write.
type Limits struct {
	Bytes int // of the text
	Depth int // of nested values
	Nodes int // of values after aliases are resolved
}

// DefaultLimits are the limits for files.
var DefaultLimits = Limits{Bytes: 4 << 20, Depth: 100, Nodes: 200_000}

// Parse reads one YAML (or JSON) text. The document is usable, though maybe incomplete, unless it is nil.
func Parse(name string, text []byte, lim Limits) (*Document, []Finding) {
	src := &Source{Name: name}
	whole := func(code, msg, fix string) (*Document, []Finding) {
		return nil, []Finding{{File: name, Code: code, Severity: Error, Message: msg, Fix: fix}}
	}
	if len(text) > lim.Bytes {
		return whole(CodeTooLarge, fmt.Sprintf("the file has %s, more than the limit of %s", Size(len(text)), Size(lim.Bytes)),
			"check that this is the configuration and not a data file")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	src.lines = splitLines(string(text))
	if !utf8.Valid(text) {
		line := 1 + bytes.Count(text[:invalidAt(text)], []byte("\n"))
		f := Finding{Code: CodeSyntax, Severity: Error, Message: "the text is not UTF-8", Fix: "save the file as UTF-8"}
		return nil, []Finding{src.place(f, line, 1, 1)}
	}
	var root, more yaml.Node
	guarded := guard(text)
	dec := yaml.NewDecoder(bytes.NewReader(guarded))
	err := decodeNode(dec, &root)
	if errors.Is(err, io.EOF) || (err == nil && isNull(content(&root))) {
		return whole(CodeEmpty, "the file has no settings", "write a configuration, or let `nat-go init` write one")
	}
	if err != nil {
		return nil, []Finding{src.syntax(guarded, err)}
	}
	doc := &Document{origins: map[*yaml.Node]origin{}}
	x := expander{doc: doc, src: src, lim: lim, open: map[*yaml.Node]bool{}, guarded: len(guarded) != len(text)}
	doc.Root = x.expand(content(&root), "", 0)
	if err := decodeNode(dec, &more); err == nil {
		f := Finding{Code: CodeManyDocs, Severity: Error, Message: "the file has more than one YAML document", Fix: "keep one; remove the line ---"}
		x.findings = append(x.findings, src.place(f, max(1, more.Line), max(1, more.Column), max(1, more.Column)))
	} else if !errors.Is(err, io.EOF) {
		x.findings = append(x.findings, src.syntax(guarded, err))
	}
	if doc.Root == nil {
		return nil, x.findings
	}
	if doc.Root.Kind != yaml.MappingNode {
		return nil, append(x.findings, doc.Report(doc.Root, "", Finding{Code: CodeNotMapping, Severity: Error,
			Message: "a configuration is a mapping of sections, this is " + describe(doc.Root), Fix: "write `section: ...`, for example `finetuning:`"}))
	}
	return doc, x.findings
}

// A reference to a variable is written ${NAME}, whose brace ends a flow mapping: NAT, which replaces references in the raw
// text, reads {host: ${HOST}}, and YAML does not. So the characters of references stand behind as many others of the
// private use area while the text is parsed, which keeps every column, and come back in the nodes. No value is put in.
const guardBase = 0xE100

var (
	plainReference = regexp.MustCompile(`\$\{[^{}"'\\\r\n]*\}`)
	guardRunes     = regexp.MustCompile(`[\x{E100}-\x{E17F}]`)
)

func guard(text []byte) []byte {
	if !bytes.Contains(text, []byte("${")) || guardRunes.Match(text) {
		return text
	}
	return plainReference.ReplaceAllFunc(text, func(ref []byte) []byte {
		return []byte(strings.Map(func(r rune) rune {
			if r < 0x80 {
				return guardBase + r
			}
			return r
		}, string(ref)))
	})
}

func unguard(value string) string {
	return strings.Map(func(r rune) rune {
		if r >= guardBase && r < guardBase+0x80 {
			return r - guardBase
		}
		return r
	}, value)
}

// decodeNode guards against a panic inside the YAML library: a hostile text must end in a finding.
func decodeNode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: cannot read the text: %v", p)
		}
	}()
	return dec.Decode(n)
}

func content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		return n.Content[0]
	}
	return n
}

func invalidAt(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(text)
}

func splitLines(text string) []string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\r")
	}
	return lines
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntax places a syntax error. The library tells the line of the construct at best, never the column; the bytes it had
// read when it gave up, fed to it one at a time, do.
func (s *Source) syntax(text []byte, err error) Finding {
	f := Finding{Code: CodeSyntax, Severity: Error,
		Message: "this is not YAML: " + yamlLine.ReplaceAllString(err.Error(), ""),
		Fix:     "check brackets, quotes and indentation on this line and the one before"}
	at := min(stoppedAt(text), len(text))
	for at > 0 && (at == len(text) || text[at] == '\n' || text[at] == '\r' || text[at] == ' ') {
		at--
	}
	line := 1 + bytes.Count(text[:at], []byte("\n"))
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	col := 1 + utf8.RuneCount(text[start:at])
	return s.place(f, line, col, col+1)
}

func stoppedAt(text []byte) int {
	r := &oneByteReader{text: slices.Concat(text, []byte("\n\n\n\n"))} // so that looking ahead ends before the text does
	dec := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		if err := decodeNode(dec, &n); err != nil {
			switch {
			case strings.Contains(err.Error(), "control characters"): // found while reading, not by the scanner
				return max(0, bytes.IndexFunc(text, isForbidden))
			case r.read < len(r.text):
				return max(0, r.read-1-lookAhead)
			}
			return len(text)
		}
	}
}

func isForbidden(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) || r == 0xfffe || r == 0xffff
}

// lookAhead is how far the library's scanner has read past the character it stumbled over.
const lookAhead = 3

type oneByteReader struct {
	text []byte
	read int
}

func (r *oneByteReader) Read(p []byte) (int, error) {
	if r.read >= len(r.text) {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	p[0] = r.text[r.read]
	r.read++
	return 1, nil
}

// expander copies a parsed tree into a document: aliases become copies, merge keys are merged, duplicates are found.
type expander struct {
	doc      *Document
	src      *Source
	lim      Limits
	nodes    int
	stopped  bool
	open     map[*yaml.Node]bool // aliased nodes being expanded
	guarded  bool
	findings []Finding
}

func (x *expander) fail(n *yaml.Node, ptr, code, msg, fix string) {
	x.findings = append(x.findings, x.src.report(n, ptr, Finding{Code: code, Severity: Error, Message: msg, Fix: fix}))
}

// expand returns nil where the value can't be had; a finding then says why.
func (x *expander) expand(n *yaml.Node, ptr string, depth int) *yaml.Node {
	if x.stopped {
		return nil
	}
	if x.nodes++; x.nodes > x.lim.Nodes {
		x.stopped = true
		x.fail(n, ptr, CodeTooMany, fmt.Sprintf("more than %d values once aliases are resolved", x.lim.Nodes), "write the values out instead of aliasing aliases")
		return nil
	}
	if depth > x.lim.Depth {
		x.stopped = true
		x.fail(n, ptr, CodeTooDeep, fmt.Sprintf("values are nested more than %d deep", x.lim.Depth), "flatten the configuration")
		return nil
	}
	if n.Kind == yaml.AliasNode {
		if x.open[n.Alias] {
			x.fail(n, ptr, CodeSelfAlias, "the alias *"+n.Value+" contains itself", "write the value out")
			return nil
		}
		x.open[n.Alias] = true
		defer delete(x.open, n.Alias)
		return x.expand(n.Alias, ptr, depth+1)
	}
	if n.Anchor != "" && !x.open[n] {
		x.open[n] = true
		defer delete(x.open, n)
	}
	c := &yaml.Node{Kind: n.Kind, Style: n.Style, Tag: n.Tag, Value: n.Value, Line: n.Line, Column: n.Column}
	x.doc.origins[c] = origin{src: x.src}
	if x.guarded {
		c.Value = unguard(c.Value)
	}
	switch n.Kind {
	case yaml.SequenceNode:
		for i, e := range n.Content {
			if v := x.expand(e, ptr+"/"+strconv.Itoa(i), depth+1); v != nil {
				c.Content = append(c.Content, v)
			}
		}
	case yaml.MappingNode:
		x.mapping(n, c, ptr, depth)
	}
	return c
}

func (x *expander) mapping(n, c *yaml.Node, ptr string, depth int) {
	seen := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if x.guarded {
			key.Value = unguard(key.Value)
		}
		if key.Kind != yaml.ScalarNode {
			x.fail(n.Content[i], ptr, CodeBadKey, "a key must be a plain text, this is "+describe(key), "write `name: value`")
			continue
		}
		child := ptr + "/" + escape(key.Value)
		if key.ShortTag() == "!!merge" {
			merged = append(merged, x.merge(n.Content[i+1], ptr, depth)...)
			continue
		}
		if first := seen[key.Value]; first != nil { // the last one counts, as in Python's reader
			x.fail(n.Content[i], child, CodeDuplicate, fmt.Sprintf("%q is set twice: first on line %d", key.Value, first.Line), "remove one of them")
			if j := keyIndex(c, key.Value); j >= 0 {
				c.Content = slices.Delete(c.Content, j, j+2)
			}
		}
		seen[key.Value] = key
		k, v := x.expand(key, child, depth+1), x.expand(n.Content[i+1], child, depth+1)
		if k != nil && v != nil {
			c.Content = append(c.Content, k, v)
		}
	}
	for i := 0; i+1 < len(merged); i += 2 { // a key of the mapping itself wins, then the first merged
		if seen[merged[i].Value] == nil {
			seen[merged[i].Value] = merged[i]
			c.Content = append(c.Content, merged[i], merged[i+1])
		}
	}
}

// merge returns the pairs that a merge key `<<` brings in.
func (x *expander) merge(n *yaml.Node, ptr string, depth int) []*yaml.Node {
	v := x.expand(n, ptr, depth+1)
	switch {
	case v == nil:
		return nil
	case v.Kind == yaml.MappingNode:
		return v.Content
	case v.Kind == yaml.SequenceNode:
		var pairs []*yaml.Node
		for _, e := range v.Content {
			if e.Kind != yaml.MappingNode {
				x.fail(e, ptr, CodeBadMerge, "`<<` merges mappings, this is "+describe(e), "name an anchor of a mapping")
				continue
			}
			pairs = append(pairs, e.Content...)
		}
		return pairs
	}
	x.fail(n, ptr, CodeBadMerge, "`<<` merges mappings, this is "+describe(v), "name an anchor of a mapping")
	return nil
}

// Merge lays over onto d, key by key and deep: where both have a mapping they are merged, else over's value wins.
func (d *Document) Merge(over *Document) {
	for n, o := range over.origins {
		d.origins[n] = o
	}
	merge(d.Root, over.Root)
}

func merge(base, over *yaml.Node) {
	for i := 0; i+1 < len(over.Content); i += 2 {
		j := keyIndex(base, over.Content[i].Value)
		switch {
		case j < 0:
			base.Content = append(base.Content, over.Content[i], over.Content[i+1])
		case base.Content[j+1].Kind == yaml.MappingNode && over.Content[i+1].Kind == yaml.MappingNode:
			base.Content[j] = over.Content[i] // findings about the block point at the file that was asked for
			merge(base.Content[j+1], over.Content[i+1])
		default:
			base.Content[j], base.Content[j+1] = over.Content[i], over.Content[i+1]
		}
	}
}

func keyIndex(m *yaml.Node, key string) int {
	if m == nil || m.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// Lookup walks keys and list indices down from a node; nil where the path ends.
func Lookup(n *yaml.Node, path ...string) *yaml.Node {
	_, v := LookupPair(n, path...)
	return v
}

// LookupPair is Lookup that also returns the key node of the last step, nil at a list index.
func LookupPair(n *yaml.Node, path ...string) (key, value *yaml.Node) {
	for _, p := range path {
		key = nil
		switch {
		case n == nil:
			return nil, nil
		case n.Kind == yaml.MappingNode:
			i := keyIndex(n, p)
			if i < 0 {
				return nil, nil
			}
			key, n = n.Content[i], n.Content[i+1]
		case n.Kind == yaml.SequenceNode:
			i, err := strconv.Atoi(p)
			if err != nil || i < 0 || i >= len(n.Content) {
				return nil, nil
			}
			n = n.Content[i]
		default:
			return nil, nil
		}
	}
	return key, n
}

// Rewrite replaces a scalar's text, as a variable's value does. What was written is kept, and an unquoted scalar gets the
// type that its new text has.
func (d *Document) Rewrite(n *yaml.Node, text string) {
	o := d.origins[n]
	if !o.rewrote {
		o.written, o.rewrote = n.Value, true
	}
	d.origins[n] = o
	n.Value = text
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0 {
		n.Tag = ""
	}
}

// Written returns the text of a scalar as it stands in the file, and whether Rewrite has replaced it since.
func (d *Document) Written(n *yaml.Node) (string, bool) {
	if o := d.origins[n]; o.rewrote {
		return o.written, true
	}
	return n.Value, false
}

// File is the name of the text that a node comes from.
func (d *Document) File(n *yaml.Node) string {
	if s := d.origins[n].src; s != nil {
		return s.Name
	}
	return ""
}

// IsSecret reports whether a scalar was hidden.
func (d *Document) IsSecret(n *yaml.Node) bool { return d.secrets[n] }

// Hide masks a value in every snippet made from now on.
func (d *Document) Hide(n *yaml.Node) {
	for _, c := range n.Content {
		d.Hide(c)
	}
	if n.Kind != yaml.ScalarNode {
		return
	}
	if d.secrets == nil {
		d.secrets = map[*yaml.Node]bool{}
	}
	d.secrets[n] = true
	src := d.origins[n].src
	if written, _ := d.Written(n); src == nil || n.Line == 0 || isReference(written) {
		return
	}
	for line := n.Line; line <= len(src.lines); line++ {
		from, to := 1, utf8.RuneCountInString(src.lines[line-1])+1
		if line == n.Line {
			from = n.Column
			if _, end := src.span(n, d.origins[n]); end > n.Column+1 || n.Style == 0 {
				to = end
			}
		} else if strings.TrimSpace(src.lines[line-1]) != "" && !src.continues(n, line) {
			break
		}
		src.masks = append(src.masks, mask{line, from, to})
		if n.Style == 0 || to <= utf8.RuneCountInString(src.lines[line-1]) {
			break
		}
	}
}

// continues reports whether a line can still belong to the multi-line scalar n: it is indented deeper than n's key.
func (s *Source) continues(n *yaml.Node, line int) bool {
	indent := func(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }
	return indent(s.lines[line-1]) > indent(s.lines[n.Line-1])
}

// Report places a finding at a node. Pointer and place are filled in; an unknown node leaves the place empty.
func (d *Document) Report(n *yaml.Node, ptr string, f Finding) Finding {
	if d.origins[n].src == nil {
		f.Pointer = ptr
		return f
	}
	return d.origins[n].src.reportAs(n, d.origins[n], ptr, f)
}

// ReportText is Report that points at a piece of a scalar's text.
func (d *Document) ReportText(n *yaml.Node, piece, ptr string, f Finding) Finding {
	src := d.origins[n].src
	if src == nil || n.Line < 1 || n.Line > len(src.lines) {
		return d.Report(n, ptr, f)
	}
	for line := n.Line; line <= len(src.lines); line++ {
		text := []rune(src.lines[line-1])
		from := 0
		if line == n.Line {
			from = min(max(n.Column-1, 0), len(text))
		} else if strings.TrimSpace(src.lines[line-1]) != "" && !src.continues(n, line) {
			break
		}
		if i := strings.Index(string(text[from:]), piece); i >= 0 {
			col := from + utf8.RuneCountInString(string(text[from:])[:i]) + 1
			f.Pointer = ptr
			return src.place(f, line, col, col+utf8.RuneCountInString(piece))
		}
	}
	return d.Report(n, ptr, f)
}

// Set puts a value at a path, creating the mappings on the way, and says that all of it was written in src at the nodes'
// own lines and columns. It returns false where the path leads through a scalar or past the end of a list.
func (d *Document) Set(path []string, value *yaml.Node, src *Source) bool {
	d.own(value, src)
	at := d.Root
	for i, key := range path {
		last := i == len(path)-1
		switch at.Kind {
		case yaml.SequenceNode:
			j, err := strconv.Atoi(key)
			if err != nil || j < 0 || j >= len(at.Content) {
				return false
			}
			if last {
				at.Content[j] = value
				return true
			}
			at = at.Content[j]
		case yaml.MappingNode:
			j := keyIndex(at, key)
			if j < 0 {
				k := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key, Line: 1, Column: 1}
				v := value
				if !last {
					v = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
				}
				d.own(k, src)
				d.origins[v] = origin{src: src}
				at.Content = append(at.Content, k, v)
				j = len(at.Content) - 2
			} else if last || isNull(at.Content[j+1]) {
				v := value
				if !last {
					v = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
				}
				d.origins[v] = origin{src: src}
				at.Content[j+1] = v
			}
			if last {
				return true
			}
			at = at.Content[j+1]
		default:
			return false
		}
	}
	return false
}

func (d *Document) own(n *yaml.Node, src *Source) {
	d.origins[n] = origin{src: src}
	for _, c := range n.Content {
		d.own(c, src)
	}
}

// CommandLine is the name of sources that are no files: overrides.
const CommandLine = "(command line)"

// NewSource makes a source of a text on the command line, for nodes put into a document with Set.
func NewSource(text string) *Source { return &Source{Name: CommandLine, lines: splitLines(text)} }

// HideFrom masks everything from a column of the first line on.
func (s *Source) HideFrom(column int) {
	s.masks = append(s.masks, mask{1, column, utf8.RuneCountInString(s.lines[0]) + 1})
}

// ReportAt places a finding in a text by line and columns.
func (s *Source) ReportAt(line, col, end int, ptr string, f Finding) Finding {
	f.Pointer = ptr
	return s.place(f, line, col, end)
}

// Adopt places findings that know only a pointer below block: those of a plugin. at is block's own pointer and fallback
// the node to point at where a pointer leads nowhere.
func (d *Document) Adopt(block, fallback *yaml.Node, at string, fs []Finding) []Finding {
	out := make([]Finding, len(fs))
	for i, f := range fs {
		path := splitPointer(f.Pointer)
		node := fallback
		for n := len(path); n > 0; n-- { // the deepest part of the path that exists
			if key, v := LookupPair(block, path[:n]...); v != nil {
				if node = v; v.Kind != yaml.ScalarNode && key != nil {
					node = key
				}
				break
			}
		}
		out[i] = d.Report(node, at+f.Pointer, f)
	}
	return out
}

func (s *Source) report(n *yaml.Node, ptr string, f Finding) Finding {
	return s.reportAs(n, origin{}, ptr, f)
}

func (s *Source) reportAs(n *yaml.Node, o origin, ptr string, f Finding) Finding {
	f.Pointer = ptr
	col, end := s.span(n, o)
	return s.place(f, n.Line, col, end)
}

// place sets file, line and columns, kept within the text, and makes the snippet.
func (s *Source) place(f Finding, line, col, end int) Finding {
	f.File = s.Name
	f.Line = min(max(line, 1), max(len(s.lines), 1))
	text := ""
	if f.Line <= len(s.lines) {
		text = s.lines[f.Line-1]
	}
	width := utf8.RuneCountInString(text)
	f.Column = min(max(col, 1), width+1)
	f.EndColumn = min(max(end, f.Column+1), max(width+1, f.Column))
	f.Snippet = s.snippet(f.Line, f.Column, f.EndColumn)
	return f
}

// span returns the columns of a scalar's first line; other nodes have their first character.
func (s *Source) span(n *yaml.Node, o origin) (from, to int) {
	from = n.Column
	if n.Kind != yaml.ScalarNode || n.Line < 1 || n.Line > len(s.lines) {
		return from, from + 1
	}
	line := []rune(s.lines[n.Line-1])
	at := from - 1
	if at < 0 || at >= len(line) {
		return from, from + 1
	}
	for at < len(line) && (line[at] == '!' || line[at] == '&') { // a tag or anchor stands before the scalar
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
	switch q := line[at]; q {
	case '"', '\'':
		for i := at + 1; i < len(line); i++ {
			switch {
			case q == '"' && line[i] == '\\':
				i++
			case line[i] == q && q == '\'' && i+1 < len(line) && line[i+1] == q:
				i++
			case line[i] == q:
				return from, i + 2
			}
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

// Pointer joins keys to a JSON pointer.
func Pointer(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteByte('/')
		b.WriteString(escape(k))
	}
	return b.String()
}

func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

func splitPointer(ptr string) []string {
	if ptr == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(ptr, "/"), "/")
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(p, "~1", "/"), "~0", "~")
	}
	return parts
}

// Dotted writes a pointer the way people name settings: finetuning.trainer, formats[0].
func Dotted(ptr string) string {
	var b strings.Builder
	for _, p := range splitPointer(ptr) {
		if _, err := strconv.Atoi(p); err == nil && b.Len() > 0 {
			b.WriteString("[" + p + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p)
	}
	return b.String()
}

func isNull(n *yaml.Node) bool {
	return n.Kind == 0 || (n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null")
}

// describe names what a node holds, never its text.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	}
	return "a text"
}
