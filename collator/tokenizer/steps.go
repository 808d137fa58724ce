package tokenizer

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	wire "github.com/nat-go/nat-go/ttc/json"
)

// stepCheck searches a part of a file for settings that would crash the library. It checks settings by name, regardless
// of their step's type, because the library reads a step of an unknown type as any step that has such settings.
type stepCheck struct {
	part       string
	size       int     // number of lists and objects so far, in all parts
	growth     float64 // product of the factors by which replacements so far, in all parts, may lengthen a text
	added      int     // special tokens that templates add
	backtracks bool    // a regular expression of the decoder may backtrack
}

// listKeys are the keys whose values are lists. Elsewhere, the library would read a list as the values of an object,
// without its keys.
var listKeys = []string{
	"normalizers", "pretokenizers", "processors", "decoders", "single", "pair", "ids", "tokens", "sep", "cls",
}

// problem searches the value of a key for the first setting that would crash the library. It returns the path of keys
// to the setting, a colon, and a description of the problem, or "" if there is none.
func (c *stepCheck) problem(key string, node wire.Raw, depth int) string {
	switch node.Kind() {
	case wire.String: // reading a decoder with invalid text or numbers ends the process
		if text, _ := node.Text(); !utf8.ValidString(text) {
			return ": text with a lone surrogate"
		}
	case wire.Number:
		if n, ok := node.Float64(); !ok || math.IsInf(n, 0) || math.IsNaN(n) {
			return ": invalid number"
		}
	case wire.Array, wire.Object:
		if depth++; depth > maxPipelineDepth {
			return fmt.Sprintf(": nested more than %d deep", maxPipelineDepth)
		}
		if c.size++; c.size > maxPipelineSize {
			return fmt.Sprintf(": more than %d lists and objects", maxPipelineSize)
		}
		if node.Kind() == wire.Array && !slices.Contains(listKeys, key) {
			return ": unexpected list"
		}
	}
	for item := range node.Elements() {
		if problem := c.problem("", item, depth); problem != "" {
			return problem
		}
	}
	if problem := cmp.Or(c.step(node), c.template(node)); problem != "" {
		return problem
	}
	for key, value := range node.Members() {
		name, _ := key.Text()
		if problem := cmp.Or(c.problem("", key, depth), c.problem(name, value, depth)); problem != "" {
			return "." + name + problem
		}
	}
	return ""
}

func (c *stepCheck) step(step wire.Raw) string {
	regex := text(step, "Regex")
	if wrong := checkPattern(regex); wrong != "" {
		return ": regular expression " + wrong
	}
	c.backtracks = c.backtracks || c.part == "decoder" && !straight.MatchString(regex)
	if pattern, given := step.Get("pattern"); given {
		c.growth *= max(1, float64(len(text(step, "content")))/max(1, float64(len(text(pattern, "String")))))
	}
	c.growth *= max(1, float64(len(text(step, "prepend"))))
	if c.growth > maxGrowth {
		return fmt.Sprintf(": replacements could make a text more than %d times longer", maxGrowth)
	}
	if _, given := step.Get("precompiled_charsmap"); given || text(step, "type") == "Precompiled" {
		if wrong := checkCharsmap(text(step, "precompiled_charsmap")); wrong != "" {
			return ": precompiled_charsmap " + wrong
		}
	}
	if length, given := number(step, "length"); given && length < 1 {
		return fmt.Sprintf(": FixedLength of %v", length)
	}
	if stop, _ := number(step, "stop"); stop > 0 && c.part == "decoder" {
		return fmt.Sprintf(": a Strip decoder with stop %v panics in the library", stop)
	}
	return ""
}

// straight matches regular expressions that never backtrack: they have no alternatives, and a repeat only at the end.
var straight = regexp.MustCompile(`^[^*+?{|(]*([*+?]|\{[0-9,]*\})?$`)

// text returns the string value of a key in an object, or "" if there is none. Unlike encoding/json, it distinguishes
// case, as the library does.
func text(object wire.Raw, key string) string {
	value, _ := object.Get(key)
	text, _ := value.Text()
	return text
}

func number(object wire.Raw, key string) (n float64, ok bool) {
	value, _ := object.Get(key)
	return value.Float64()
}

// flag returns the boolean value of a key in an object, or absent if the key is missing.
func flag(object wire.Raw, key string, absent bool) bool {
	value, _ := object.Get(key)
	if on, given := value.Bool(); given {
		return on
	}
	return absent
}

// template refuses a template that repeats its input or adds special tokens so often that a short text would take
// gigabytes.
func (c *stepCheck) template(step wire.Raw) string {
	const maxName = 1 << 10 // bytes of a special token that count as one token
	sizes := map[string]int{}
	special, _ := step.Get("special_tokens")
	for key, token := range special.Members() {
		name, _ := key.Text()
		list, _ := token.Get("ids")
		sizes[name] = max(len(slices.Collect(list.Elements())), len(token)/maxName)
	}
	for name, maxTexts := range map[string]int{"single": 1, "pair": 2} {
		pieces, _ := step.Get(name)
		texts := 0
		for piece := range pieces.Elements() {
			if token, is := piece.Get("SpecialToken"); is {
				c.added += max(1, sizes[text(token, "id")])
			} else {
				texts++
			}
		}
		if c.added > maxTemplateTokens {
			return fmt.Sprintf(".%s: more than %d special tokens", name, maxTemplateTokens)
		}
		if texts > maxTexts {
			return fmt.Sprintf(".%s: the template repeats the text %d times", name, texts)
		}
	}
	return ""
}

// checkPattern returns the reason why a regular expression could backtrack excessively in a backtracking engine
// (Oniguruma), or "". The reasons are an unbounded repeat around another one, back references, recursion, huge counts
// and deep nesting.
func checkPattern(pattern string) string {
	if len(pattern) > maxPatternBytes {
		return "is too long"
	}
	c := patternCheck{pattern: pattern, open: []group{{}}}
	for c.at = 0; c.at < len(pattern); c.at++ {
		if wrong := c.item(); wrong != "" {
			return wrong
		}
	}
	if len(c.open) != 1 {
		return "has an unclosed parenthesis"
	}
	return ""
}

// group is a part of a pattern that a quantifier can apply to.
type group struct {
	repeats bool // the group contains an unbounded repeat
	size    int  // number of items, with counted repeats written out, as an engine may do
}

type patternCheck struct {
	pattern string
	at      int
	open    []group // the whole pattern, then the open groups
	closed  group   // the previous item
}

// item checks the item that begins at c.at, and moves c.at to its last byte.
func (c *patternCheck) item() (wrong string) {
	p, item := c.pattern, group{size: 1}
	switch p[c.at] {
	case '\\':
		c.at++
		if c.at < len(p) && (p[c.at] >= '1' && p[c.at] <= '9' || p[c.at] == 'k' || p[c.at] == 'g') {
			return "has a back reference"
		}
	case '[':
		end := classEnd(p, c.at)
		if end < 0 {
			return "has an unclosed character class"
		}
		c.at = end
	case '(':
		if c.open = append(c.open, group{}); len(c.open) > maxPatternDepth {
			return "nests too deep"
		}
	case ')':
		if len(c.open) == 1 {
			return "has an unopened parenthesis"
		}
		item = c.open[len(c.open)-1]
		c.open = c.open[:len(c.open)-1]
		if item.repeats {
			c.open[len(c.open)-1].repeats = true
		}
	case '*', '+', '{':
		item = c.closed
		if wrong := c.repeat(&item); wrong != "" {
			return wrong
		}
		c.open[len(c.open)-1].size -= c.closed.size // already included in item.size, which is added below
	}
	outer := &c.open[len(c.open)-1]
	if outer.size += item.size; outer.size > maxPatternItems {
		return "repeats too much within counted repeats"
	}
	c.closed = item
	return ""
}

// repeat checks the quantifier at c.at, which applies to item.
func (c *patternCheck) repeat(item *group) (wrong string) {
	unbounded, end, count := quantifier(c.pattern, c.at)
	if count < 0 {
		return "repeats too often"
	}
	c.at = end
	item.size *= max(1, count)
	if unbounded && item.repeats {
		return "has a repeat within a repeat"
	}
	if unbounded {
		item.repeats = true
		c.open[len(c.open)-1].repeats = true
	}
	// "+?" and "++" are lazy and possessive forms of one quantifier.
	if next := c.at + 1; next < len(c.pattern) && (c.pattern[next] == '?' || c.pattern[next] == '+') {
		c.at++
	}
	return ""
}

// quantifier reads "*", "+" or "{m,n}" at i. It reports whether the quantifier is unbounded, where it ends, and its
// largest count. The count is 1 if the quantifier lacks counts, and -1 if one has more than four digits. A "{" that
// doesn't start a quantifier is a plain character.
func quantifier(pattern string, i int) (unbounded bool, end, count int) {
	if pattern[i] != '{' {
		return true, i, 1
	}
	length := strings.IndexByte(pattern[i:], '}')
	if length < 0 || strings.Trim(pattern[i+1:i+length], "0123456789,") != "" {
		return false, i, 1
	}
	body := pattern[i+1 : i+length]
	for text := range strings.SplitSeq(body, ",") {
		if len(text) > 4 {
			return false, i, -1
		}
		n, _ := strconv.Atoi(text) // 0 for an empty text
		count = max(count, n)
	}
	return strings.HasSuffix(body, ","), i + length, count
}

// classEnd returns the index of the "]" that closes the class opened at i, or -1.
func classEnd(pattern string, i int) int {
	depth := 0
	for ; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			depth++
			if i+1 < len(pattern) && pattern[i+1] == '^' {
				i++
			}
			if i+1 < len(pattern) && pattern[i+1] == ']' { // a "]" right after "[" is a member
				i++
			}
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// checkCharsmap walks SentencePiece's precompiled character map (a double-array trie and the replacements to which it
// points; see spm_precompiled) as the library will. It returns a description of the problem if some input would make
// the library index outside of the map.
func checkCharsmap(encoded string) string {
	data, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // DecodeString ignores line breaks
		return "is not base64"
	}
	if len(data) < 4 {
		return "is too short"
	}
	size := int64(binary.LittleEndian.Uint32(data))
	if size%4 != 0 || size == 0 || size > int64(len(data)-4) {
		return "has a wrong trie size"
	}
	units := make([]uint32, size/4)
	for i := range units {
		units[i] = binary.LittleEndian.Uint32(data[4+4*i:])
	}
	texts := string(data[4+size:])
	if !utf8.ValidString(texts) {
		return "has replacements that are not UTF-8"
	}
	for text := range strings.SplitSeq(texts, "\x00") {
		if len(text) > maxGrowth {
			return "has a replacement that is too long"
		}
	}
	return checkTrie(units, texts)
}

// checkTrie visits every node of a double-array trie, whose values are offsets into the replacements in texts.
func checkTrie(units []uint32, texts string) string {
	offset := func(unit uint32) uint64 { return uint64(unit>>10) << ((unit & (1 << 9)) >> 6) }
	n := uint64(len(units))
	root := offset(units[0])
	if root >= n {
		return "points outside its trie"
	}
	seen := map[uint64]bool{root: true}
	for todo := []uint64{root}; len(todo) > 0; {
		node := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for label := uint64(1); label < 256; label++ {
			at := node ^ label
			if at >= n {
				return "points outside its trie"
			}
			unit := units[at]
			if uint64(unit&(1<<31|0xFF)) != label {
				continue
			}
			next := at ^ offset(unit)
			if next >= n {
				return "points outside its trie"
			}
			if unit>>8&1 == 1 {
				value := int64(units[next] & (1<<31 - 1))
				if value > int64(len(texts)) || value < int64(len(texts)) && !utf8.RuneStart(texts[value]) {
					return "points outside its replacements"
				}
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return ""
}
