package yamldoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/builders/finding"
)

// Limits on a document, which are far above anything handwritten.
const (
	MaxBytes  = 4 << 20  // maximum size of the text
	maxDepth  = 100      // maximum depth of nested values
	maxValues = 200_000  // maximum number of values after aliases are resolved
	maxText   = 16 << 20 // maximum number of bytes in those values
)

// Parse reads one YAML (or JSON) document. A non-nil result is usable, though possibly incomplete.
func Parse(name string, text []byte) (*Document, []finding.Finding) {
	src := &Source{Name: name}
	whole := func(code, msg, fix string) (*Document, []finding.Finding) {
		f := problem(code, msg, fix)
		f.File = name
		return nil, []finding.Finding{f}
	}
	if len(text) > MaxBytes {
		return whole(CodeTooLarge,
			fmt.Sprintf("the file has %d bytes, more than the limit of %d", len(text), MaxBytes),
			"check that this is the configuration and not a data file")
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	src.lines = splitLines(string(text))
	if !utf8.Valid(text) {
		line := 1 + slices.IndexFunc(src.lines, func(l string) bool { return !utf8.ValidString(l) })
		f := problem(CodeSyntax, "the text is not UTF-8", "save the file as UTF-8")
		return nil, []finding.Finding{src.place(f, line, 1, 1)}
	}
	var root, more yaml.Node
	guarded := guard(text)
	dec := yaml.NewDecoder(bytes.NewReader(guarded))
	err := decodeNode(dec, &root)
	if errors.Is(err, io.EOF) || (err == nil && IsNull(Content(&root))) {
		return whole(CodeEmpty, "the file has no settings", "write a configuration, or let `nat-go init` write one")
	}
	if err != nil {
		return nil, []finding.Finding{src.syntax(guarded, err)}
	}
	doc := &Document{origins: map[*yaml.Node]origin{}}
	x := expander{doc: doc, src: src, open: map[*yaml.Node]bool{}, guarded: len(guarded) != len(text)}
	doc.Root = x.expand(Content(&root), "", 0)
	if err := decodeNode(dec, &more); err == nil {
		f := problem(codeManyDocs, "the file has more than one YAML document", "keep one; remove the line ---")
		x.findings = append(x.findings, src.place(f, max(1, more.Line), max(1, more.Column), max(1, more.Column)))
	} else if !errors.Is(err, io.EOF) {
		x.findings = append(x.findings, src.syntax(guarded, err))
	}
	if doc.Root == nil {
		return nil, x.findings
	}
	if doc.Root.Kind != yaml.MappingNode {
		f := problem(CodeNotMapping, "expected a mapping of sections, got "+Describe(doc.Root),
			"write `section: ...`, for example `finetuning:`")
		return nil, append(x.findings, doc.Report(doc.Root, "", f))
	}
	return doc, x.findings
}

// A variable reference is written ${NAME}, and its brace ends a flow mapping. NAT, which replaces references in the
// raw text, accepts {host: ${HOST}}, but YAML does not. Therefore, before the text is parsed, each character of a
// reference is replaced with one from the private use area, which preserves columns. The original characters are then
// restored in the nodes. Values are not inserted here.
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

// decodeNode guards against panics inside the YAML library, because malicious text must also result in a finding.
func decodeNode(dec *yaml.Decoder, n *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("cannot read the text as YAML: %v", p)
		}
	}()
	return dec.Decode(n)
}

// Content returns the root of a document node, or the node itself.
func Content(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		return n.Content[0]
	}
	return n
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line \d+: )?`)

// syntax finds the position of a syntax error. The library reports at most the line of the construct, and no column.
// Passing it one byte at a time shows how far it had read when it failed.
func (s *Source) syntax(text []byte, err error) finding.Finding {
	f := problem(CodeSyntax, "this is not YAML: "+yamlLine.ReplaceAllString(err.Error(), ""),
		"check brackets, quotes and indentation on this line and the one before")
	at := min(stoppedAt(text), len(text))
	for at > 0 && (at == len(text) || text[at] == '\n' || text[at] == '\r' || text[at] == ' ') {
		at--
	}
	if strings.Contains(f.Message, "unknown escape character") {
		f.Fix = "use single quotes instead of double quotes: within double quotes, a backslash begins an escape such as \\n"
	} else if o := unclosed(text, at); o != nil {
		f.Message = fmt.Sprintf("this is not YAML: the %s that opens here is not closed", names[o.char])
		f.Fix = fmt.Sprintf("add the closing %s", string(ends[o.char]))
		at = o.at
	} else if at < len(text) && tabbed(text, at) {
		f.Message, f.Fix = "this is not YAML: the line is indented with a tab", "indent it with spaces"
	}
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	col := 1 + utf8.RuneCount(text[start:at])
	return s.place(f, 1+bytes.Count(text[:at], []byte("\n")), col, col+1)
}

var (
	names = map[byte]string{'{': "brace", '[': "bracket", '"': "quote", '\'': "quote"}
	ends  = map[byte]byte{'{': '}', '[': ']', '"': '"', '\'': '\''}
)

// tabbed reports whether the line at an offset is indented with a tab.
func tabbed(text []byte, at int) bool {
	line := text[bytes.LastIndexByte(text[:at], '\n')+1:]
	return bytes.IndexByte(line[:len(line)-len(bytes.TrimLeft(line, " \t"))], '\t') >= 0
}

func stoppedAt(text []byte) int {
	// Pad the text so that the look-ahead does not reach its end.
	r := oneByteReader{bytes.NewReader(slices.Concat(text, []byte("\n\n\n\n")))}
	dec := yaml.NewDecoder(r)
	for {
		var n yaml.Node
		err := decodeNode(dec, &n)
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "control characters"): // detected by the reader, not the scanner
			return max(0, bytes.IndexFunc(text, isForbidden))
		case r.Len() > 0:
			return max(0, int(r.Size())-r.Len()-1-lookAhead)
		default:
			return len(text)
		}
	}
}

func isForbidden(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r) || r == 0xfffe || r == 0xffff
}

// lookAhead is the number of bytes that the library's scanner reads after an invalid character.
const lookAhead = 3

type oneByteReader struct{ *bytes.Reader }

func (r oneByteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }
