package template

import (
	"sort"
	"strings"

	"github.com/nat-go/nat-go/ttc/internal/pytext"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// pprintWidth is the line width of pprint.
const pprintWidth = 80

// pprintFilter is pprint.pformat.
func pprintFilter(st *state, v val, a *args) val {
	a.bind("pprint", 0)
	p := prettyPrinter{st: st}
	p.format(p.sorted(v, 0), 0, 0, 0)
	st.spend(p.out.size())
	return p.out.value()
}

type prettyPrinter struct {
	st  *state
	out builder
}

// sorted returns v with the keys of its dicts sorted.
func (p *prettyPrinter) sorted(v val, depth int) val {
	if depth > pyvalue.MaxDepth {
		throw("RecursionError", "maximum recursion depth exceeded")
	}
	p.st.step()
	switch v.Kind() {
	case pyvalue.KindList, pyvalue.KindTuple:
		l := &pyvalue.List{Items: p.st.values(len(v.Items())), Tag: v.List().Tag}
		for i, e := range v.Items() {
			l.Items[i] = p.sorted(e, depth+1)
		}
		if v.Kind() == pyvalue.KindTuple {
			return pyvalue.OfTuple(l)
		}
		return pyvalue.OfList(l)
	case pyvalue.KindDict:
		d := v.Dict()
		p.st.spend(3 * valueSize * d.Len())
		order := make([]int, d.Len())
		for i := range order {
			order[i] = i
		}
		sort.SliceStable(order, func(i, j int) bool {
			x, _ := d.At(order[i])
			y, _ := d.At(order[j])
			p.st.step()
			less, err := pyvalue.Ordered("<", x, y)
			if err != nil { // keys that can't be compared are ordered by type name
				return "<class '"+x.TypeName()+"'>" < "<class '"+y.TypeName()+"'>"
			}
			return less
		})
		out := pyvalue.NewDict(d.Len())
		out.Tag = d.Tag
		for _, i := range order {
			k, e := d.At(i)
			check(out.Set(k, p.sorted(e, depth+1)))
		}
		return pyvalue.OfDict(out)
	}
	return v
}

func (p *prettyPrinter) write(s string) { p.out.write(s, nil) }

func (p *prettyPrinter) writeValue(v val) {
	p.st.room(len(p.out.b) + len(v.Text()))
	p.out.write(v.Text(), provOf(v))
}

func (p *prettyPrinter) newLine(indent int) {
	p.st.room(len(p.out.b) + indent)
	p.write("\n" + strings.Repeat(" ", indent))
}

// format writes v; allowance is how many characters must follow it on its last line.
func (p *prettyPrinter) format(v val, indent, allowance, level int) {
	rep := p.st.conversionOf(v, 'r')
	if pytext.Len(rep.Text()) <= pprintWidth-indent-allowance {
		p.writeValue(rep)
		return
	}
	switch v.Kind() {
	case pyvalue.KindDict:
		p.dict(v.Dict(), indent+1, allowance+1, level+1)
	case pyvalue.KindList:
		p.write("[")
		p.items(v.Items(), indent+1, allowance+1, level+1)
		p.write("]")
	case pyvalue.KindTuple:
		if _, ok := v.List().Tag.(groupTuple); ok { // one of jinja2's named tuples, which prints itself
			p.writeValue(rep)
			return
		}
		end := ")"
		if len(v.Items()) == 1 {
			end = ",)"
		}
		p.write("(")
		p.items(v.Items(), indent+1, allowance+len(end), level+1)
		p.write(end)
	case pyvalue.KindStr:
		if isMarkup(v) {
			p.writeValue(rep)
			return
		}
		p.text(v, rep, indent, allowance, level+1)
	default:
		p.writeValue(rep)
	}
}

func (p *prettyPrinter) items(items []val, indent, allowance, level int) {
	for i, e := range items {
		after := 1
		if i == len(items)-1 {
			after = allowance
		}
		if i > 0 {
			p.write(",")
			p.newLine(indent)
		}
		p.format(e, indent, after, level)
	}
}

func (p *prettyPrinter) dict(d *pyvalue.Dict, indent, allowance, level int) {
	p.write("{")
	for i := range d.Len() {
		k, v := d.At(i)
		after := 1
		if i == d.Len()-1 {
			after = allowance
		}
		if i > 0 {
			p.write(",")
			p.newLine(indent)
		}
		key := p.st.conversionOf(k, 'r')
		p.writeValue(key)
		p.write(": ")
		p.format(v, indent+pytext.Len(key.Text())+2, after, level)
	}
	p.write("}")
}

// text writes a text that is too long for its line as several texts, one per line.
func (p *prettyPrinter) text(v, whole val, indent, allowance, level int) {
	if level == 1 {
		indent++
		allowance++
	}
	var pieces []val
	last := whole
	width, lines := pprintWidth-indent, p.st.splitLines(v, true)
	for i, line := range lines {
		most := width
		if i == len(lines)-1 {
			most -= allowance
		}
		if last = p.st.conversionOf(line, 'r'); pytext.Len(last.Text()) <= most {
			pieces = append(pieces, last)
			continue
		}
		pieces = p.words(pieces, line, width, allowance, i == len(lines)-1)
	}
	if len(pieces) == 1 {
		p.writeValue(last)
		return
	}
	if level == 1 {
		p.write("(")
	}
	for i, piece := range pieces {
		if i > 0 {
			p.newLine(indent)
		}
		p.writeValue(piece)
	}
	if level == 1 {
		p.write(")")
	}
}

// words breaks a line between its words.
func (p *prettyPrinter) words(pieces []val, line val, width, allowance int, lastLine bool) []val {
	s := line.Text()
	start, end := 0, 0 // of what has been collected
	for end < len(s) {
		next := wordEnd(s, end)
		most := width
		if lastLine && next == len(s) {
			most -= allowance
		}
		if start < end && reprLen(s[start:next], most) > most {
			pieces = append(pieces, p.st.conversionOf(p.st.cut(line, start, end), 'r'))
			start = end
		}
		end = next
	}
	if start < end {
		pieces = append(pieces, p.st.conversionOf(p.st.cut(line, start, end), 'r'))
	}
	return pieces
}

// wordEnd returns the end of the word at i including the white space after it.
func wordEnd(s string, i int) int {
	space := false
	for i < len(s) {
		r, n := pytext.DecodeRune(s[i:])
		if is := pytext.IsSpace(r); space && !is {
			break
		} else {
			space = is
		}
		i += n
	}
	return i
}

// reprLen is len(repr(s)), or something larger than any line.
func reprLen(s string, most int) int {
	if n := pytext.Len(s) + 2; n > most {
		return n
	}
	rep, _ := pyvalue.Repr(pyvalue.Str(s)) // of a text, so it can't fail
	return pytext.Len(rep)
}
