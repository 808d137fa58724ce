package redact

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/internal/history"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// Config is a source's `redact` setting.
type Config struct {
	Enabled bool     `yaml:"enabled" default:"true" doc:"remove secrets and personal data from the sessions"`
	Allow   []string `yaml:"allow" doc:"strings to keep, or patterns for them between slashes: [me@acme.org, /^10[.]/]"`
}

// Redactor replaces secrets and personal data. It is not safe for concurrent use.
type Redactor struct {
	allow    map[string]bool
	patterns []*regexp.Regexp
	seen     map[xxh3.Uint128]string // the tag that replaces a value, by the value's hash
	numbers  map[string]int
	counts   map[string]int64
	clean    map[xxh3.Uint128]struct{} // hashes of strings and tools without findings; many recur in every session
	known    map[string]bool           // secrets of the current example that are recognisable only from their context
	tools    []chat.Tool               // the last tools examined, which examples share
	redacted []chat.Tool
	hasher   history.Hasher
	decoding bool // the text being searched was decoded from base64
}

// New returns a redactor, or nil if redaction is off.
func New(cfg Config) (*Redactor, error) {
	if !cfg.Enabled {
		return nil, nil
	}
	r := &Redactor{
		allow: map[string]bool{}, seen: map[xxh3.Uint128]string{},
		numbers: map[string]int{}, counts: map[string]int64{}, clean: map[xxh3.Uint128]struct{}{},
	}
	for _, a := range cfg.Allow {
		if len(a) > 2 && a[0] == '/' && a[len(a)-1] == '/' {
			re, err := regexp.Compile(a[1 : len(a)-1])
			if err != nil {
				return nil, fmt.Errorf("redact.allow: %q is not a pattern: %w", a, err)
			}
			r.patterns = append(r.patterns, re)
			continue
		}
		r.allow[a] = true
	}
	return r, nil
}

// Counts returns the number of replacements by class.
func (r *Redactor) Counts() map[string]int64 { return r.counts }

// Example redacts an example. Other examples may share its messages, so changed parts are copied first. If the tools or
// messages change, ex.Recorded keeps the hashes of the original ones.
func (r *Redactor) Example(ex *ttc.Example) {
	ex.Truth, _ = r.json(ex.Truth)
	recorded := r.hasher.Graph(r.hasher.Tools(ex.Tools), &ex.Graph)
	changed := false
	if len(ex.Tools) > 0 {
		if len(r.tools) != len(ex.Tools) || &r.tools[0] != &ex.Tools[0] {
			r.tools, r.redacted = ex.Tools, slices.Clone(ex.Tools)
			for i := range r.redacted {
				r.tool(&r.redacted[i])
			}
		}
		changed = !slices.EqualFunc(ex.Tools, r.redacted, func(a, b chat.Tool) bool {
			return bytes.Equal(a.Raw, b.Raw)
		})
		ex.Tools = r.redacted
	}
	r.known = nil
	changed = r.nodes(ex) || changed
	if r.known != nil { // secrets may also appear elsewhere by themselves
		changed = r.nodes(ex) || changed
		r.known = nil
	}
	if changed && ex.Recorded == nil {
		ex.Recorded = recorded
	}
}

// tool redacts a tool definition. A definition that contains nothing to redact is cached, because each session has its
// own copy.
func (r *Redactor) tool(t *chat.Tool) {
	hash := xxh3.Hash128Seed(t.Raw, toolSeed)
	if _, ok := r.clean[hash]; ok {
		return
	}
	t.Name, _ = r.Text(t.Name)
	out, changed := r.json(t.Raw)
	if t.Raw = out; !changed && len(r.clean) < maxClean {
		r.clean[hash] = struct{}{}
	}
}

// toolSeed distinguishes the hashes of tool definitions from the hashes of text.
const toolSeed = 1

// nodes redacts the messages. It reports whether it replaced anything.
func (r *Redactor) nodes(ex *ttc.Example) (changed bool) {
	for i := range ex.Graph.Nodes {
		n := &ex.Graph.Nodes[i]
		if r.message(&n.Message) { // ids and log-probs belong to the original text
			n.TokenIDs, n.LogProbs = nil, nil
			ex.Fidelity, changed = min(ex.Fidelity, ttc.TextOnly), true
		}
	}
	return changed
}

// message redacts a message. It reports whether it replaced anything.
func (r *Redactor) message(m *chat.Message) (changed bool) {
	text := func(s *string) {
		if out, ok := r.Text(*s); ok {
			*s, changed = out, true
		}
	}
	value := func(raw *json.Raw) {
		if out, ok := r.json(*raw); ok {
			*raw, changed = out, true
		}
	}
	name := func(s *string) {
		if out, ok := r.name(*s); ok {
			*s, changed = out, true
		}
	}
	name(&m.Name)
	text(&m.ToolCallID)
	text(&m.Text)
	text(&m.Reasoning)
	m.Parts, m.ToolCalls, m.Extra = slices.Clone(m.Parts), slices.Clone(m.ToolCalls), slices.Clone(m.Extra)
	for i := range m.Parts {
		text(&m.Parts[i].Text)
		value(&m.Parts[i].Raw)
	}
	for i := range m.Extra {
		value(&m.Extra[i].Value)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		name(&c.Name)
		text(&c.ID)
		c.Extra = slices.Clone(c.Extra)
		for k := range c.Extra {
			value(&c.Extra[k].Value)
		}
		if c.Parsed == nil {
			text(&c.Arguments)
			continue
		}
		// Unredacted parts of the arguments remain as the model wrote them.
		if parsed, err := json.Parse([]byte(c.Arguments), json.Limits{}); err == nil {
			if out, ok := r.json(parsed); ok {
				c.Arguments, c.Parsed, changed = string(out), out, true
			}
		}
	}
	return changed
}

// name redacts a name. It ignores r.known, because a tool's name must match the list of tools even if an argument
// named like a secret has the same value.
func (r *Redactor) name(s string) (string, bool) {
	known := r.known
	r.known = nil
	out, changed := r.Text(s)
	found := r.known
	r.known = known
	for v := range found {
		r.remember(v)
	}
	if !changed && len(r.clean) < maxClean { // cache the name, because names recur
		r.clean[xxh3.HashString128(s)] = struct{}{}
	}
	return out, changed
}

// maxDepth is the maximum depth at which values are searched.
const maxDepth = 200

// json redacts the strings in a value, and reports whether that changed it. The rest is unchanged byte for byte.
func (r *Redactor) json(raw json.Raw) (json.Raw, bool) {
	if out := r.appendValue(nil, raw, 0); !bytes.Equal(out, raw) {
		return out, true
	}
	return raw, false
}

func (r *Redactor) appendValue(b []byte, raw json.Raw, depth int) []byte {
	at := 0 // end of the text that has been appended
	until := func(part json.Raw) {
		from := offset(raw, part)
		b = append(b, raw[at:from]...)
		at = from + len(part)
	}
	switch kind := raw.Kind(); {
	case kind == json.String:
		s, _ := raw.Text()
		if out, ok := r.Text(s); ok {
			return json.AppendString(b, out)
		}
	case kind == json.Array && depth < maxDepth:
		for e := range raw.Elements() {
			until(e)
			b = r.appendValue(b, e, depth+1)
		}
	case kind == json.Object && depth < maxDepth:
		for k, v := range raw.Members() {
			name, _ := k.Text()
			if out, ok := r.Text(name); ok {
				until(k)
				b = json.AppendString(b, out)
			}
			until(v)
			if v.Kind() == json.String && secret.Named(name) {
				b = r.redactNamed(b, v)
			} else {
				b = r.appendValue(b, v, depth+1)
			}
		}
	}
	return append(b, raw[at:]...)
}

// redactNamed redacts the value of a key that is named like a secret. It does so if Text finds a secret in the value,
// or if the value has at least eight bytes and a digit, and is neither a reference nor on the allow list.
func (r *Redactor) redactNamed(b []byte, v json.Raw) []byte {
	s, _ := v.Text()
	if out, ok := r.Text(s); ok {
		return json.AppendString(b, out)
	}
	if len(s) < 8 || !digits(s) || reference(s) || r.allowed(s) {
		return append(b, v...)
	}
	r.remember(s)
	return json.AppendString(b, r.tag("secret", s))
}

// reference reports whether s is a phrase or only names a value: ${KEY2}, {{ key2 }}, <key2>, $KEY2 or a tag.
func reference(s string) bool {
	return strings.Contains(s, " ") || strings.Contains(s, "${") || strings.Contains(s, "{{") || s[0] == '<' ||
		s[0] == '$' || Tags(s) != nil
}

// offset returns the position in whole at which part, a slice of it, begins.
func offset(whole, part json.Raw) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(whole))))
}

// maxClean is the maximum number of entries in Redactor.clean.
const maxClean = 100_000

// found is a range of text to replace.
type found struct {
	from, to int
	class    string
}

// Text redacts text of at least six bytes. It reports whether it replaced anything.
func (r *Redactor) Text(s string) (string, bool) {
	if len(s) < 6 {
		return s, false
	}
	hash := xxh3.HashString128(s)
	if _, ok := r.clean[hash]; ok && r.known == nil {
		return s, false
	}
	places := r.find(s)
	if len(places) == 0 {
		if len(r.clean) < maxClean && len(s) >= 256 {
			r.clean[hash] = struct{}{}
		}
		return s, false
	}
	slices.SortStableFunc(places, func(a, b found) int {
		return cmp.Or(a.from-b.from, b.to-a.to, vagueness(a.class)-vagueness(b.class))
	})
	var b strings.Builder
	at := 0
	for _, p := range places {
		if p.to <= at { // already replaced
			continue
		}
		b.WriteString(s[at:max(at, p.from)])
		b.WriteString(r.tag(p.class, s[p.from:p.to]))
		at = p.to
	}
	b.WriteString(s[at:])
	return b.String(), true
}

// vagueness ranks the class "secret" last, so that a more specific class takes precedence.
func vagueness(class string) int {
	if class == secret.Context {
		return 1
	}
	return 0
}

// find finds the ranges to replace. It finds a secret even if escapes or colours precede it, if it contains invisible
// characters, or if it is percent-encoded or in base64.
func (r *Redactor) find(s string) []found {
	out := r.places(s, s)
	if bare := unescaped(s); bare != s {
		out = append(out, r.places(bare, s)...)
	}
	if shown, at := visible(s); at != nil {
		for _, p := range r.places(shown, shown) {
			out = append(out, found{at[p.from], at[p.to-1] + 1, p.class})
		}
	}
	if plain, at := unescapedAddress(s); at != nil {
		for _, p := range r.places(plain, plain) {
			out = append(out, found{at[p.from], at[p.to], p.class})
		}
	}
	return append(out, r.encoded(s)...)
}

// places finds the ranges to replace in s. whole is s itself or, if s was unescaped, the original text, in which the
// ranges have the same offsets.
func (r *Redactor) places(s, whole string) (out []found) {
	written := Tags(whole)
	add := func(class string, from, to int) {
		if !r.allowed(whole[from:to]) {
			out = appendOutside(out, found{from, to, class}, written)
		}
	}
	for _, p := range secret.Find(s) {
		if p.Class == secret.Context {
			r.remember(whole[p.From:p.To])
		}
		add(p.Class, p.From, p.To)
	}
	for _, rule := range rules() {
		for w := range rule.windows(s) {
			for _, m := range rule.re.FindAllStringSubmatchIndex(s[w[0]:w[1]], -1) {
				from, to := w[0]+m[len(m)-2], w[0]+m[len(m)-1]
				if rule.is == nil || rule.is(s[from:to], s[:from]) {
					add(rule.class, from, to)
				}
			}
		}
	}
	for v := range r.known {
		for at := range occurrences(s, v) {
			add("secret", at, at+len(v))
		}
	}
	return out
}

// escape matches an escape in JSON or in source code, which may itself be escaped any number of times, or a
// terminal's colour sequence.
var escape = lazy.Regexp(`\\+(?:[nrt"']|u[0-9a-fA-F]{4})|\x1b\[[0-9;]*[A-Za-z]`)

// unescaped returns s with each byte of its escapes replaced by white space.
func unescaped(s string) string {
	if !strings.ContainsAny(s, "\\\x1b") {
		return s
	}
	b := []byte(s)
	for _, m := range escape().FindAllStringIndex(s, -1) {
		space := byte(' ')
		if last := s[m[1]-1]; s[m[0]] == '\\' && (last == 'n' || last == 'r') {
			space = '\n'
		}
		for i := m[0]; i < m[1]; i++ {
			b[i] = space
		}
	}
	return string(b)
}

// remember stores a value that may also appear by itself elsewhere in the example.
func (r *Redactor) remember(value string) {
	if len(value) < 8 || Tags(value) != nil || r.allowed(value) {
		return
	}
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[value] = true
}

func (r *Redactor) allowed(v string) bool {
	return r.allow[v] || slices.ContainsFunc(r.patterns, func(re *regexp.Regexp) bool { return re.MatchString(v) })
}

const opening = "<REDACTED:"

var tags = regexp.MustCompile(`<REDACTED:([a-z0-9_]+):\d{1,9}>`)

// Tags returns the byte ranges [from, to) of the tags in text, in order. It ignores text that only resembles a tag,
// because its class is unknown or its end is missing.
func Tags(s string) (out [][]int) {
	if !strings.Contains(s, opening) {
		return nil
	}
	for _, m := range tags.FindAllStringSubmatchIndex(s, -1) {
		if classes()[s[m[2]:m[3]]] {
			out = append(out, m[:2:2])
		}
	}
	return out
}

// classes lists the classes of all tags.
var classes = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{"data": true}
	for _, class := range secret.Classes() {
		all[class] = true
	}
	for _, rule := range rules() {
		all[rule.class] = true
	}
	return all
})

// minRemainder is the minimum number of bytes next to a tag that are replaced; fewer are only quotes or a separator.
const minRemainder = 4

// appendOutside appends the parts of a place that are not in a tag. The tags are in order. The text may have been
// redacted before, or may contain text that looks like a tag, possibly to hide a secret.
func appendOutside(out []found, place found, tags [][]int) []found {
	at := place.from
	for _, t := range tags {
		if t[1] <= at || t[0] >= place.to {
			continue
		}
		if t[0]-at >= minRemainder {
			out = append(out, found{at, t[0], place.class})
		}
		at = t[1]
	}
	if at == place.from || place.to-at >= minRemainder {
		if at < place.to {
			out = append(out, found{at, place.to, place.class})
		}
	}
	return out
}

// tag returns the tag that replaces a value, and counts the replacement. Equal values get the same tag.
func (r *Redactor) tag(class, value string) string {
	r.counts[class]++
	key := xxh3.HashString128(value)
	p, ok := r.seen[key]
	if !ok {
		r.numbers[class]++
		p = fmt.Sprintf("%s%s:%d>", opening, class, r.numbers[class])
		r.seen[key] = p
	}
	return p
}
