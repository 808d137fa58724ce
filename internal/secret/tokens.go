package secret

import (
	_ "embed"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/internal/lists"
)

//go:embed tokens.txt
var tokenText string

// tokens returns the rows of tokens.txt. TestTokens checks that each row has all columns.
var tokens = sync.OnceValue(func() (all []token) {
	for line := range strings.Lines(tokenText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 7)
		t := token{class: c[0], named: c[4] == "named", hints: strings.Split(c[5], "|"), pattern: c[6]}
		t.bits, _ = strconv.ParseFloat(c[1], 64)
		t.run, _ = strconv.Atoi(c[2])
		t.before, _ = strconv.Atoi(c[3])
		all = append(all, t)
	}
	return all
})

// token is the shape of a service's tokens, or of a value next to a service's name.
type token struct {
	class string
	// lower-case strings of at least three bytes, one of which is in every matching text, in upper or lower case
	hints   []string
	pattern string // the first matching group is the token
	// minimum entropy in bits per byte; if 0, the token must look random by the same rules as a named secret
	bits   float64
	run    int  // the token begins with a hint and has at least this many bytes
	before int  // the token has at least this many bytes before a hint
	named  bool // the hint is a name that the token follows
}

// A Place is a part of a string that looks like a secret.
type Place struct {
	From, To int    // byte range [From, To)
	Class    string // the secret's kind, for display: "github_token"
}

// Context is the class of a secret recognised only by its context: the value of a variable named like a secret.
const Context = "secret"

// Classes lists the classes that a Place can have.
func Classes() []string {
	all := append(lists.Map(tokens(), func(t token) string { return t.class }), Context, "private_key")
	slices.Sort(all)
	return slices.Compact(all)
}

// finder returns a finder for a token.
func (t *token) finder() finder {
	return finder{
		hints: t.hints, re: lazy.Regexp(t.pattern), window: t.window,
		place: func(s string, m []int) (Place, bool) {
			from, to := matched(m)
			return Place{from, to, t.class}, t.fits(s, from, to)
		},
	}
}

// matched returns the range of the first group that matched, because each alternative of a pattern has a separate
// group. For a pattern without groups, it returns the range of the whole match.
func matched(m []int) (from, to int) {
	for i := 2; i < len(m); i += 2 {
		if m[i] >= 0 {
			return m[i], m[i+1]
		}
	}
	return m[0], m[1]
}

// minGluedHint is the minimum length of a hint that identifies a token even directly after a word, as in keyghp_... A
// pattern treats the beginning of its window as the beginning of a word.
const minGluedHint = 4

// window returns the range to search around a hint, or false if there is no token around it.
func (t *token) window(s string, at, end int) (w [2]int, ok bool) {
	if t.run > 0 {
		from := max(0, at-2)
		if end-at >= minGluedHint {
			from = at
		}
		end := runEnd(s, at)
		return [2]int{from, min(len(s), end+2)}, end-at >= t.run
	}
	for i := at - t.before; i < at; i++ {
		if i < 0 || !inRun(s[i]) {
			return w, false
		}
	}
	return around(s, at, end), true
}

// runEnd returns the end of the run of characters that a token may contain.
func runEnd(s string, at int) int {
	end := at
	for end < len(s) && end-at < maxRunBytes && inRun(s[end]) {
		end++
	}
	return end
}

// inRun reports whether a token may contain a byte: printable ASCII except quotes, brackets, commas, semicolons and
// backslashes.
func inRun(c byte) bool { return runBytes[c] }

var runBytes = func() (table [256]bool) {
	for c := byte('!'); c < 0x7f; c++ {
		table[c] = strings.IndexByte("\"'`,;()[]{}<>\\", c) < 0
	}
	return table
}()

// fits reports whether a match looks random and is neither an example of a key nor one of npm's checksums. If the hint
// is a name, the match must also contain a digit, and not be a name with a number.
func (t *token) fits(s string, from, to int) bool {
	v := s[from:to]
	if t.bits == 0 && !random(v, 0) || Entropy(v) < t.bits || IsExample(v) || strings.HasSuffix(s[:from], "sha512-") {
		return false
	}
	return !t.named || strings.ContainsAny(v, "0123456789") && !version(v)
}

// Entropy measures how random s looks, in bits per byte.
func Entropy(s string) float64 {
	var counts [256]int
	for i := range len(s) {
		counts[s[i]]++
	}
	bits := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(s))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// IsExample reports whether s is an example key, as found in manuals: it contains a run of x, zeros, stars, dots or
// underscores, or words that indicate an example.
func IsExample(s string) bool {
	lower := strings.ToLower(s)
	return slices.ContainsFunc([]string{
		"xxxx", "****", "....", "____", "0000000000", "placehold", "your-", "your_", "example_key",
	}, func(word string) bool { return strings.Contains(lower, word) })
}
