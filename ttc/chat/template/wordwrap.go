package template

import (
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// wordwrapFilter applies textwrap.wrap to every line.
func wordwrapFilter(st *state, v val, a *args) val {
	p := a.bind("wordwrap", 0, "width", "break_long_words", "wrapstring", "break_on_hyphens")
	glue := or(p[2], pyvalue.None)
	if glue.IsNone() {
		glue = pyvalue.Str("\n")
	}
	needsText(glue, "join")
	needsText(v, "splitlines")
	width, hyphens := or(p[0], pyvalue.Int(79)), or(p[3], pyvalue.True)
	w := wrapper{
		st:         st,
		breakWords: or(p[1], pyvalue.True).Truth(),
		hyphens:    hyphens.Truth(),
		pieces:     hyphens.IsTrue(),
		whole:      width.Kind() != pyvalue.KindFloat,
	}
	var lines []val
	for _, line := range st.splitLines(v, false) {
		if st.holds("<=", width, pyvalue.Int(0)) { // Python looks at a width only if there is a line
			throw("ValueError", "invalid width %s (must be > 0)", reprOf(width))
		}
		w.width = number(width)
		lines = append(lines, st.joinedAs(glue, w.wrap(line)))
	}
	return st.joinedAs(glue, lines)
}

// needsText raises unless v is a text, and so has that method.
func needsText(v val, method string) {
	if defined(v).Kind() != pyvalue.KindStr {
		throw("AttributeError", "'%s' object has no attribute '%s'", v.TypeName(), method)
	}
}

// joinedAs is sep.join(items): Markup, with the items escaped, if sep is.
func (st *state) joinedAs(sep val, items []val) val {
	if isMarkup(sep) {
		items = slices.Clone(items)
		for i := range items {
			items[i] = st.escape(items[i])
		}
	}
	return st.like(sep, st.joinTexts(sep, items))
}

// wrapper lays out lines as CPython's TextWrapper does with drop_whitespace on and the other options off.
type wrapper struct {
	st         *state
	width      float64
	whole      bool // the width is an int; a text can't be cut at a float
	breakWords bool
	hyphens    bool // of words that are longer than a line: they are broken after one
	pieces     bool // a word with hyphens is several chunks; for this Python wants True itself

	runes []rune // of the line, and the byte at which each begins
	at    []int
}

// chunk is a piece of a line, in runes, that isn't broken further unless it is longer than a line.
type chunk struct{ i, j int }

func (c chunk) len() int { return c.j - c.i }

func (w *wrapper) wrap(line val) []val {
	line = markEscapes(line)
	s := line.Text()
	w.st.spend(valueSize * len(s)) // runes, places and chunks
	w.runes, w.at = w.runes[:0], w.at[:0]
	eachRune(s, func(at int, r rune, _ int) { w.runes, w.at = append(w.runes, r), append(w.at, at) })
	w.at = append(w.at, len(s))
	chunks := w.chunks()
	var out []val
	for len(chunks) > 0 {
		w.st.step()
		if len(out) > 0 && w.isSpace(chunks[0]) {
			chunks = chunks[1:]
		}
		n, size := 0, 0
		for n < len(chunks) && float64(size+chunks[n].len()) <= w.width {
			size += chunks[n].len()
			n++
		}
		cur := chunks[:n:n]
		chunks = chunks[n:]
		if len(chunks) > 0 && float64(chunks[0].len()) > w.width {
			cur, chunks = w.long(cur, size, chunks)
		}
		if k := len(cur) - 1; k >= 0 && w.isSpace(cur[k]) {
			cur = cur[:k]
		}
		if len(cur) > 0 {
			w.st.spend(valueSize)
			out = append(out, w.st.cut(line, w.at[cur[0].i], w.at[cur[len(cur)-1].j]))
		}
	}
	return out
}

// isSpace reports whether strip() would leave nothing of a chunk.
func (w *wrapper) isSpace(c chunk) bool {
	return !slices.ContainsFunc(w.runes[c.i:c.j], func(r rune) bool { return !pytext.IsSpace(r) })
}

// long handles a first chunk that is longer than a line: it puts as much as fits on the line, or gives the chunk its
// own line.
func (w *wrapper) long(cur []chunk, size int, chunks []chunk) ([]chunk, []chunk) {
	c := chunks[0]
	if !w.breakWords {
		if len(cur) == 0 {
			return chunks[:1:1], chunks[1:]
		}
		return cur, chunks
	}
	room := 1 // a line has at least one character, however narrow it is
	if w.width >= 1 {
		if !w.whole {
			throw("TypeError", "slice indices must be integers or None or have an __index__ method")
		}
		room = int(w.width) - size
	}
	end := c.i + room
	if w.hyphens {
		for h := end - 1; h > c.i; h-- {
			if w.runes[h] == '-' {
				if slices.ContainsFunc(w.runes[c.i:h], func(r rune) bool { return r != '-' }) {
					end = h + 1
				}
				break
			}
		}
	}
	chunks[0].i = end
	return append(cur, chunk{c.i, end}), chunks
}

// chunks splits the line as the regular expression wordsep_re does: at white space, after hyphens between letters, and
// around em-dashes.
func (w *wrapper) chunks() []chunk {
	var out []chunk
	n := len(w.runes)
	for i := 0; i < n; {
		j := i + 1
		switch {
		case isWrapSpace(w.runes[i]):
			for j < n && isWrapSpace(w.runes[j]) {
				j++
			}
		case !w.pieces:
			for j < n && !isWrapSpace(w.runes[j]) {
				j++
			}
		default:
			j = w.word(i)
		}
		out = append(out, chunk{i, j})
		i = j
	}
	return out
}

// word returns the end of the piece that begins at i: an em-dash, or as little of a word as may stand alone.
func (w *wrapper) word(i int) int {
	n := len(w.runes)
	if end := w.dashes(i); end > 0 {
		return end
	}
	for e := i + 1; e < n; e++ {
		switch {
		case isWrapSpace(w.runes[e]):
			return e
		case w.runes[e] != '-':
		case (w.letters(e-2, 2) || w.letters(e-1, 1) && w.is(e-2, '-') && w.letters(e-3, 1)) &&
			w.letters(e+1, 1) && (w.letters(e+2, 1) || w.is(e+2, '-') && w.letters(e+3, 1)):
			return e + 1
		case w.runes[e-1] != '-' && w.dashes(e) > 0: // a run is scanned only once
			return e
		}
	}
	return n
}

// dashes returns the end of two or more hyphens at i that stand between words, or 0.
func (w *wrapper) dashes(i int) int {
	if !w.is(i, '-') || i == 0 || !isWordRune(w.runes[i-1]) && !strings.ContainsRune("!\"'&.,?", w.runes[i-1]) {
		return 0
	}
	end := i
	for w.is(end, '-') {
		end++
	}
	if end-i < 2 || end == len(w.runes) || !isWordRune(w.runes[end]) {
		return 0
	}
	return end
}

func (w *wrapper) is(i int, r rune) bool { return i >= 0 && i < len(w.runes) && w.runes[i] == r }

// letters reports whether n runes from i on are letters or underscores.
func (w *wrapper) letters(i, n int) bool {
	if i < 0 || i+n > len(w.runes) {
		return false
	}
	return !slices.ContainsFunc(w.runes[i:i+n], func(r rune) bool { return !isWordRune(r) || pytext.IsDecimal(r) })
}

func isWrapSpace(r rune) bool { return strings.ContainsRune("\t\n\x0b\x0c\r ", r) }

// isWordRune is the class \w of regular expressions.
func isWordRune(r rune) bool { return pytext.IsAlnum(r) || r == '_' }
