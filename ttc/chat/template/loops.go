package template

import (
	"math"
	"strconv"

	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// loop is the variable `loop`, an iteration that can look at neighbouring items.
type loop struct {
	of      val // the iterable
	rest    iterator
	index0  int
	size    int // number of items; -1 until requested
	after   val // the next item, if it was looked at
	current val
	before  val
	heads   *heads // set if a head can end between the loop's iterations
	from    int    // index of the message that is the first item
}

func (*loop) TypeName() string { return "LoopContext" }
func (l *loop) Truth() bool    { return l.length() > 0 }
func (l *loop) Repr() string {
	return "<LoopContext " + strconv.Itoa(l.index0+1) + "/" + strconv.Itoa(l.length()) + ">"
}

func (st *state) newLoop(of val, rest iterator) *loop {
	l := &from(st, &st.made.loops, 1)[0]
	*l = loop{of: of, rest: rest, index0: -1, size: -1, after: missing, current: missing, before: missing}
	if st.heads != nil && !isMissing(of) {
		if from, ok := st.heads.from(of.List()); ok {
			l.heads, l.from = st.heads, from
		}
	}
	return l
}

func (l *loop) advance() (val, bool) {
	item := l.after
	if isMissing(item) {
		var ok bool
		if item, ok = l.rest.next(); !ok {
			return missing, false
		}
	}
	l.after = missing
	l.index0++
	l.before, l.current = l.current, item
	return item, true
}

func (l *loop) peek() val {
	l.sees(l.index0 + 1)
	if isMissing(l.after) {
		l.after, _ = l.rest.next()
	}
	return l.after
}

// sees records that the template read an item.
func (l *loop) sees(i int) {
	if l.heads != nil {
		l.heads.seen = max(l.heads.seen, l.from+i)
	}
}

// end makes the current item the last one until back is called.
func (l *loop) end() (back func()) {
	was := *l
	l.rest, l.after, l.size = slice(nil), missing, -1
	return func() { *l = was }
}

func (l *loop) length() int {
	l.sees(math.MaxInt32)
	if l.size >= 0 {
		return l.size
	}
	if n, ok := length(l.of); ok {
		l.size = n
		return n
	}
	var rest []val
	for item := range l.rest.all {
		rest = append(rest, item)
	}
	l.rest = slice(rest)
	l.size = len(rest) + l.index0 + 1
	if !isMissing(l.after) {
		l.size++
	}
	return l.size
}

// attribute implements loop.NAME. It returns false if loop lacks the attribute.
func (l *loop) attribute(name string) (val, bool) {
	switch name {
	case "index":
		return pyvalue.Int(int64(l.index0 + 1)), true
	case "index0":
		return pyvalue.Int(int64(l.index0)), true
	case "first":
		return pyvalue.Bool(l.index0 == 0), true
	case "last":
		return pyvalue.Bool(isMissing(l.peek())), true
	case "length":
		return pyvalue.Int(int64(l.length())), true
	case "previtem":
		if l.index0 == 0 {
			return undefinedHint("there is no previous item"), true
		}
		return l.before, true
	case "nextitem":
		if v := l.peek(); !isMissing(v) {
			return v, true
		}
		return undefinedHint("there is no next item"), true
	case "changed", "cycle", "depth", "depth0", "revindex", "revindex0":
		throwUnsupported("loop." + name)
	}
	return missing, false
}

func (c *compiler) forStatement(n *forNode, f *frame) stmt {
	contains(n.parts(), func(e node) bool {
		if name, ok := e.(*nameNode); ok && name.use == useStore && name.name == "loop" {
			throwAt(name.at(), "TemplateAssertionError", "Can't assign to special loop variable in for-loop target")
		}
		return false
	})
	return c.loop(n, f, nil)
}

// loop compiles a loop. If k isn't nil, its method at is called before every iteration and after the last.
func (c *compiler) loop(n *forNode, f *frame, k *fork) stmt {
	iter, run := c.expr(n.iter, f), c.loopBody(n, f, f.inner(), f.inner(), k)
	return func(st *state) flow { return run(st, iter(st)) }
}

// loopBody compiles a loop over given items. body and otherwise are the frames of the loop's body and of its else part.
func (c *compiler) loopBody(n *forNode, outer, body, otherwise *frame, k *fork) func(st *state, items val) flow {
	var loopVar variable
	extended := undeclared(n.body, "loop")["loop"] // something in the loop may use the variable loop
	if extended {
		loopVar = body.variable(body.sym.parameter("loop"))
	}
	body.sym.scanParams(n.target)
	body.sym.scan(n.body...)
	filter := c.loopFilter(n, outer, body)
	turn := c.loopTurn(n, body, loopVar, extended)
	orElse := c.loopElse(n, outer, otherwise)
	at := n.iter.at()
	return func(st *state, items val) flow {
		st.pos = at
		st.reads(items)
		rest := st.mustIterate(items)
		if filter != nil {
			rest, items = filter(st, rest), missing
		}
		var l *loop
		var loopValue, item val
		if extended {
			l = st.newLoop(items, rest)
			loopValue = pyvalue.OfObject(l)
		}
		empty := true
		for done := 0; ; done++ {
			if k != nil && st.heads != nil {
				l, loopValue, last := l, loopValue, item // copies, so that the originals stay on the stack
				k.at(st, items, done, func() {
					if extended {
						defer l.end()()
					}
					turn(st, loopValue, last)
				})
			}
			st.pos = at
			var ok bool
			if extended {
				item, ok = l.advance()
			} else {
				item, ok = rest.next()
			}
			if !ok {
				break
			}
			st.step()
			fl := turn(st, loopValue, item)
			if fl == flowBreak {
				break
			}
			empty = empty && fl != flowOn
		}
		if empty && orElse != nil {
			return orElse(st)
		}
		return flowOn
	}
}

// loopTurn compiles one iteration of a loop.
func (c *compiler) loopTurn(
	n *forNode, body *frame, loopVar variable, extended bool,
) func(st *state, loopValue, item val) flow {
	body.inLoop = true
	assign, enter, run := c.assign(n.target, body), c.enter(body), c.body(n.body, body)
	return func(st *state, loopValue, item val) flow {
		if extended {
			*loopVar.of(st) = loopValue
		}
		assign(st, item)
		enter(st)
		return run(st)
	}
}

// loopElse compiles the part that runs if no iteration was completed, as in jinja2. It returns nil if the loop has no
// else part.
func (c *compiler) loopElse(n *forNode, outer, otherwise *frame) stmt {
	if n.otherwise == nil {
		return nil
	}
	otherwise.sym.scan(n.otherwise...)
	otherwise.inLoop = outer.inLoop
	enter, run := c.enter(otherwise), c.body(n.otherwise, otherwise)
	return func(st *state) flow {
		enter(st)
		return run(st)
	}
}

// loopFilter compiles `for ... if test` to a generator, which runs the test when an item is requested.
func (c *compiler) loopFilter(n *forNode, outer, body *frame) func(st *state, rest iterator) iterator {
	if n.test == nil {
		return nil
	}
	in := outer.function()
	in.sym.scanParams(n.target)
	in.sym.scan(n.test)
	enter, assign, test := c.enter(in), c.assign(n.target, in), c.condition(n.test, in)
	at := n.test.at()
	return func(st *state, rest iterator) iterator {
		act := st.newActivation(in.fn, st.act)
		started := false
		return iterator{draw: func() (val, bool) {
			caller := st.act
			st.act = act
			defer func() { st.act = caller }()
			if !started {
				started = true
				enter(st)
			}
			for item := range rest.all {
				st.pos = at
				st.step()
				assign(st, item)
				if test(st) {
					return item, true
				}
			}
			return missing, false
		}}
	}
}
