package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// depthOf returns a JSON value's nesting depth, without parsing it.
func depthOf(raw json.RawMessage) int {
	depth, deepest, inString := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// checkSteps walks a normalizer, pre_tokenizer, post_processor or decoder and refuses settings that would crash the
// library. growth is the product of the factors by which replacements so far may lengthen a text.
func checkSteps(path string, node any, growth *float64) error {
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			if err := checkSteps(path, item, growth); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := checkStep(path, node, growth); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if err := checkSteps(path+"."+key, node[key], growth); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkStep(path string, step map[string]any, growth *float64) error {
	if pattern, ok := step["Regex"].(string); ok {
		if problem := checkPattern(pattern); problem != "" {
			return refuse(CodeBadTokenizer, "%s: regular expression %s", path, problem)
		}
	}
	content, _ := step["content"].(string)
	switch step["type"] {
	case "Replace":
		shortest := 1
		if pattern, ok := step["pattern"].(map[string]any); ok {
			if text, ok := pattern["String"].(string); ok {
				shortest = max(1, len(text))
			}
		}
		*growth *= max(1, float64(len(content))/float64(shortest))
		if *growth > maxGrowth {
			return refuse(CodeBadTokenizer, "%s: replacements could make a text more than %d times longer", path, maxGrowth)
		}
	case "TemplateProcessing":
		return checkTemplate(path, step)
	case "Precompiled":
		charsmap, _ := step["precompiled_charsmap"].(string)
		if problem := checkCharsmap(charsmap); problem != "" {
			return refuse(CodeBadTokenizer, "%s: precompiled_charsmap %s", path, problem)
		}
	case "FixedLength":
		if length, given := step["length"].(float64); given && length < 1 {
			return refuse(CodeBadTokenizer, "%s: FixedLength of %v", path, length)
		}
	case "Strip":
		if stop, ok := step["stop"].(float64); ok && stop > 0 && strings.HasPrefix(path, "decoder") {
			return refuse(CodeBadTokenizer, "%s: a Strip decoder with stop %v panics in the library", path, stop)
		}
	}
	return nil
}

// checkTemplate refuses a template that repeats its input or adds special tokens so often that a short text would take
// gigabytes.
func checkTemplate(path string, step map[string]any) error {
	ids := map[string]int{}
	special, _ := step["special_tokens"].(map[string]any)
	for name, token := range special {
		token, _ := token.(map[string]any)
		list, _ := token["ids"].([]any)
		ids[name] = len(list)
	}
	for name, maxTexts := range map[string]int{"single": 1, "pair": 2} {
		pieces, _ := step[name].([]any)
		texts, added := 0, 0
		for _, piece := range pieces {
			piece, _ := piece.(map[string]any)
			if token, is := piece["SpecialToken"].(map[string]any); is {
				id, _ := token["id"].(string)
				added += max(1, ids[id])
				continue
			}
			texts++
		}
		if added > maxTemplateTokens {
			return refuse(CodeBadTokenizer, "%s.%s: more than %d special tokens", path, name, maxTemplateTokens)
		}
		if texts > maxTexts {
			return refuse(CodeBadTokenizer, "%s.%s: the template repeats the text %d times", path, name, texts)
		}
	}
	return nil
}

// checkPattern refuses regular expressions that would backtrack excessively in a backtracking engine (Oniguruma): an
// unbounded repeat around another one, back references, recursion, huge counts, deep nesting.
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
	repeats int
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
		if c.repeats++; c.repeats > maxPatternRepeats {
			return "has too many repeats"
		}
	}
	// "+?" and "++" are lazy and possessive forms of one quantifier.
	if next := c.at + 1; next < len(c.pattern) && (c.pattern[next] == '?' || c.pattern[next] == '+') {
		c.at++
	}
	return ""
}

// quantifier reads "*", "+" or "{m,n}" at i. It reports whether the quantifier is unbounded, where it ends, and its
// largest count, which is 1 if it lacks counts and -1 if a count has more than four digits. A "{" that doesn't start a
// quantifier is a plain character.
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

// checkCharsmap walks SentencePiece's precompiled character map (a double-array trie and the replacements it points
// into; spm_precompiled) as the library will, and refuses one in which some input would index outside of it.
func checkCharsmap(encoded string) string {
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
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
