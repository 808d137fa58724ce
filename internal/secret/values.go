package secret

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/internal/lazy"
)

// Mask replaces a secret.
const Mask = "***"

const (
	minValue = 4  // minimum length of a value in bytes; shorter values occur within ordinary words
	minLine  = 12 // minimum length in bytes at which a line of a multi-line value is masked on its own
	minCut   = 4  // minimum length in bytes at which part of a value is recognised at a cut in a text
)

// Values are secrets whose values are known, including their quoted, escaped or encoded forms. The zero value holds
// none. It is safe for concurrent use.
type Values struct {
	mu       sync.RWMutex
	forms    []string // longest first
	replacer *strings.Replacer
}

// NewValues makes a set of values.
func NewValues(values ...string) *Values {
	v := new(Values)
	v.Add(values...)
	return v
}

// Add adds values. Values shorter than four bytes are ignored.
func (v *Values) Add(values ...string) {
	var more []string
	for _, s := range values {
		more = append(more, forms(s)...)
	}
	if len(more) == 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	all := append(slices.Clone(v.forms), more...)
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	v.forms = slices.Compact(all)
	pairs := make([]string, 0, 2*len(v.forms))
	for _, f := range v.forms {
		pairs = append(pairs, f, Mask)
	}
	v.replacer = strings.NewReplacer(pairs...) // the longest forms come first, so the longest match wins
}

// AddAddress adds the secrets in an address: its password or, without one, its user name, which is then usually a
// token, and the Basic credentials made from both.
func (v *Values) AddAddress(address string) { v.Add(OfAddress(address)...) }

// OfAddress lists the secrets in an address.
func OfAddress(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return nil
	}
	password, with := u.User.Password()
	header := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
	if !with {
		password = u.User.Username()
	}
	return []string{header, password}
}

// all returns the forms of all values, in a slice that is never modified.
func (v *Values) all() []string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.forms
}

// Len returns the number of strings that are searched for.
func (v *Values) Len() int { return len(v.all()) }

// Redact masks the values in s.
func (v *Values) Redact(s string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.replacer == nil {
		return s
	}
	return v.replacer.Replace(s)
}

// RedactCut masks the values in s, which was cut out of a longer text. head and tail specify which ends of s are
// cuts. Part of a value that remains at a cut is masked too.
func (v *Values) RedactCut(s string, head, tail bool) string {
	forms := v.all()
	from, to := 0, len(s)
	if head && tail && len(s) >= minCut &&
		slices.ContainsFunc(forms, func(f string) bool { return strings.Contains(f, s) }) {
		return Mask
	}
	if head {
		from = overlap(s, minCut, forms, func(f string, n int) bool { return strings.HasPrefix(s, f[len(f)-n:]) })
	}
	if tail {
		to -= begun(s, minCut, forms)
	}
	if from >= to && s != "" {
		return Mask
	}
	// Mask complete values first, because the end of one value may be the beginning of another.
	out := v.Redact(s[from:to])
	if from > 0 {
		out = Mask + out
	}
	if to < len(s) {
		out += Mask
	}
	return out
}

// overlap returns the maximum number of bytes that s shares with part of a value, or 0 if it is below least. shares
// reports whether it shares n bytes with a form.
func overlap(s string, least int, forms []string, shares func(form string, n int) bool) (most int) {
	for _, f := range forms {
		for n := min(len(f)-1, len(s)); n >= least && n > most; n-- {
			if shares(f, n) {
				most = n
			}
		}
	}
	return most
}

// begun returns the length of the longest incomplete value at the end of s, of at least the given length.
func begun(s string, least int, forms []string) int {
	return overlap(s, least, forms, func(f string, n int) bool { return strings.HasSuffix(s, f[:n]) })
}

// Writer masks the values in the text written through it, even if values are split between writes. It holds back a
// possible beginning of a value until more text follows or Flush is called.
type Writer struct {
	v    *Values
	w    io.Writer
	held string
}

// Writer makes a writer that writes to w.
func (v *Values) Writer(w io.Writer) *Writer { return &Writer{v: v, w: w} }

// Write accepts all of p unless the underlying writer fails.
func (w *Writer) Write(p []byte) (int, error) {
	forms := w.v.all()
	if len(forms) == 0 && len(w.held) == 0 {
		return w.w.Write(p)
	}
	text := w.held + string(p)
	cut := safeCut(text, forms)
	_, err := io.WriteString(w.w, w.v.Redact(text[:cut]))
	w.held = strings.Clone(text[cut:])
	return len(p), err
}

// Flush writes the held-back text. An incomplete beginning of a value is masked.
func (w *Writer) Flush() error {
	text := w.held
	w.held = ""
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w.w, w.v.RedactCut(text, false, true))
	return err
}

// safeCut returns the length of the part of a text that can be masked and passed on. No value extends beyond the end of
// that part, but an incomplete one may begin there.
func safeCut(text string, forms []string) int {
	cut := len(text) - begun(text, 1, forms)
	for moved := true; moved; {
		moved = false
		for _, f := range forms {
			from := max(0, cut-len(f)+1)
			to := min(len(text), cut+len(f)-1)
			if i := strings.Index(text[from:to], f); i >= 0 && from+i < cut {
				cut, moved = from+i, true
			}
		}
	}
	return cut
}

// forms returns the forms in which a value may appear.
func forms(value string) []string {
	var out []string
	add := func(least int, list ...string) {
		for _, s := range list {
			if len(s) >= least {
				out = append(out, s)
			}
		}
	}
	trimmed := strings.TrimSpace(value)
	if len(trimmed) < minValue {
		return nil
	}
	add(minValue, escaped(value)...)
	add(minValue, escaped(trimmed)...)
	if !strings.ContainsAny(trimmed, "\r\n") {
		return out
	}
	for line := range strings.FieldsFuncSeq(trimmed, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") { // PEM's BEGIN and END are not secret
			add(minLine, escaped(line)...)
		}
	}
	add(minValue, strings.Join(strings.Fields(trimmed), " "))
	return out
}

var percentEscape = lazy.Regexp(`%[0-9A-F]{2}`)

func escaped(s string) []string {
	asGo, ascii := strconv.Quote(s), strconv.QuoteToASCII(s)
	query := url.QueryEscape(s)
	list := []string{
		s, asGo[1 : len(asGo)-1], ascii[1 : len(ascii)-1], query, strings.ReplaceAll(query, "+", "%20"),
		url.PathEscape(s),
		html.EscapeString(s), strings.ReplaceAll(s, "'", "''"), strings.ReplaceAll(s, "'", `'\''`),
		hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s))),
	}
	if b, err := json.Marshal(s); err == nil {
		list = append(list, string(b[1:len(b)-1]))
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(s) == nil {
		plain := strings.TrimSuffix(b.String(), "\n")
		plain = plain[1 : len(plain)-1]
		twice := strconv.Quote(plain) // JSON within JSON, as in an error inside an answer
		list = append(list, plain, strings.ReplaceAll(plain, "/", `\/`), twice[1:len(twice)-1])
	}
	for _, t := range []string{query, url.PathEscape(s)} { // percent escapes also come in lower case
		list = append(list, percentEscape().ReplaceAllStringFunc(t, strings.ToLower))
	}
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		list = append(list, e.EncodeToString([]byte(s)), e.WithPadding(base64.NoPadding).EncodeToString([]byte(s)))
		if len(s) < 8 {
			continue
		}
		// In the base64 of a longer text, the value begins at one of three alignments. Only part of its encoding is
		// independent of the neighbouring bytes; search for that part.
		for lead := range 3 {
			enc := e.EncodeToString(append(make([]byte, lead), s...))
			from := (lead*8 + 5) / 6
			to := (lead + len(s)) * 8 / 6
			list = append(list, enc[from:to])
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
