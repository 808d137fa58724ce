package sdpo

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/internal/lazy"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
)

// sourceFlag is the rule for sources that mark a result as an error outside the result's content.
const sourceFlag = "source_flag"

// detector finds the results of failed calls.
type detector struct {
	classes   map[string]bool // classes of evidence in Detect.Results
	silenced  map[string]bool // names of rules that are switched off
	match     []matcher
	transient []*regexp.Regexp
	ignore    []*regexp.Regexp
	nextTurn  bool
	looks     bool // whether any rule examines the content of results
}

type matcher struct {
	tool, pattern *regexp.Regexp
	path          path
	class, rule   string
}

func newDetector(c *Detect) (*detector, error) {
	d := &detector{
		classes: evidence.Set(c.Results), silenced: evidence.Set(c.Silence), nextTurn: c.NextTurn,
		transient: patterns(c.Transient), ignore: patterns(c.IgnoreTools),
	}
	d.looks = slices.ContainsFunc(evidence.Rules, func(r evidence.Rule) bool {
		return d.classes[r.Class] && !d.silenced[r.Name]
	})
	for i, m := range c.Match {
		name := fmt.Sprintf("match[%d]", i)
		x := matcher{
			tool: pattern(m.Tool), pattern: pattern(m.Pattern),
			class: cmp.Or(m.Class, "tool_error"), rule: cmp.Or(m.Name, name),
		}
		if m.JSONPath != "" {
			var err error
			if x.path, err = parsePath(m.JSONPath); err != nil {
				return nil, fmt.Errorf("detect.%s.json_path: %w", name, err)
			}
		}
		d.match = append(d.match, x)
	}
	return d, nil
}

// finding is the verdict on a call, based on its result. If rule is empty, no rule matched. If only class is empty, it
// is a near miss.
type finding struct {
	class, rule string
	quote, why  string // the text that the rule matched and, for a near miss, the evidence against it
	supported   bool   // set for a near miss that the agent's next turn may decide
}

// read judges a result. The user's rules come first, then the source's flags, then the content of the result.
func (d *detector) read(made *chat.ToolCall, n *ttc.Node) finding {
	if anyFits(d.ignore, made.Name) {
		return finding{}
	}
	text := n.Message.AllText()
	c := contentOf(text)
	for _, m := range d.match {
		if fits(m.tool, made.Name) && m.fits(c) {
			return finding{class: m.class, rule: m.rule, quote: brief(firstLine(c.text))}
		}
	}
	flagged, said := evidence.Flagged(n)
	if flagged && d.classes[evidence.Flag] && !d.silenced[sourceFlag] {
		return finding{class: evidence.Flag, rule: sourceFlag, quote: brief(firstLine(c.text))}
	}
	if !d.looks {
		return finding{}
	}
	args, _ := arguments(made)
	f := evidence.Read(text, evidence.Call{Arguments: args})
	rule, known := evidence.Named(f.Rule)
	switch {
	case !known || !d.classes[rule.Class] || d.silenced[rule.Name]:
		return finding{}
	case f.Failed && said && !flagged && n.Error != nil:
		return finding{rule: f.Rule, quote: f.Quote, why: "the source says that the call succeeded"}
	case f.Failed:
		return finding{class: rule.Class, rule: f.Rule, quote: f.Quote}
	}
	return finding{rule: f.Rule, quote: f.Quote, why: f.Why, supported: f.Supported}
}

func (m *matcher) fits(c *content) bool {
	if m.path == nil {
		return m.pattern.MatchString(c.text)
	}
	v, ok := m.path.find(c.whole())
	if !ok {
		return false
	}
	if m.pattern == nil {
		return evidence.Truthy(v)
	}
	if s, isText := v.Text(); isText {
		return m.pattern.MatchString(s)
	}
	return m.pattern.Match(v)
}

// told is a source's annotation of an error next to a message: its kind and related data.
type told struct {
	kind string
	meta json.Raw
	any  bool
}

// tool returns the tool's name according to the source, or an empty string if the source doesn't give one.
func (e *told) tool() (name string) {
	for _, key := range []string{"tool", "tool_name", "name"} {
		v, _ := e.meta.Get(key)
		if name, _ = v.Text(); name != "" {
			return name
		}
	}
	return ""
}

func toldOf(n *ttc.Node) (e told) {
	if n.Failure != nil {
		return told{kind: n.Failure.Kind, meta: n.Failure.Meta, any: true}
	}
	for _, x := range n.Message.Extra {
		switch x.Key {
		case "tool_error":
			if evidence.SaysError(x.Value) {
				e.any = true
				e.kind, _ = x.Value.Text()
			}
		case "error_meta":
			e.meta = x.Value
		}
	}
	return e
}

// saysSucceeded reports whether the source or the message explicitly says that the call succeeded.
func saysSucceeded(n *ttc.Node) bool {
	if flagged, said := evidence.Flagged(n); flagged || !said {
		return false
	}
	return n.Error != nil || !slices.ContainsFunc(n.Message.Extra, func(x chat.Member) bool {
		s, ok := x.Value.Text()
		return x.Key == "status" && ok && s != "success"
	})
}

// content is the text of a result. If the text is JSON, its value is parsed on demand.
type content struct {
	text  string
	whole func() json.Raw
}

func contentOf(text string) *content {
	const most = 4 << 20 // maximum size in bytes of a result that is parsed
	text = strings.TrimSpace(text)
	return &content{text, sync.OnceValue(func() (v json.Raw) {
		if len(text) <= most {
			v, _ = json.Parse([]byte(text), json.Limits{})
		}
		return v
	})}
}

var transientText = lazy.Regexp(`(?i)\btimed[ -]out\b|\bdeadline (?:was )?exceeded\b|\btime-?out ?(?:error|exception|` +
	`expired)|\b(?:connection|connect|read|request|gateway|operation|execution|tool|server) time-?out\b|` +
	`^(?:error: ?)?time-?out\W*$|` +
	`\bETIMEDOUT\b|\bECONNRESET\b|\bECONNREFUSED\b|\bconnection (?:was )?(?:reset|refused|aborted|closed)\b|` +
	`\brate[ -]?limit(?:ed|s)? ?(?:error|exceeded|reached|hit|$)|\brate[ -]?limited\b|\btoo many requests\b|` +
	`\b(?:temporarily|service) unavailable\b|\binternal server error\b|\bbad gateway\b|\btry again later\b|` +
	`\b(?:status(?: ?code)?|http(?:/\d(?:\.\d)?)?(?: error)?|error code|response code)\W{0,3}(?:408|425|429|` +
	`5\d\d)\b`)

// isTransient reports whether an error is not the fault of the call: a timeout, too many requests, a server failure.
func (d *detector) isTransient(text string) bool {
	const most = 64 << 10
	if len(text) > most {
		text = text[:most]
	}
	if transientText().MatchString(text) || anyFits(d.transient, text) {
		return true
	}
	c := contentOf(text)
	return strings.HasPrefix(c.text, "{") && transientObject(c.whole(), 0)
}

func transientObject(o json.Raw, depth int) bool {
	for _, k := range []string{"code", "status_code", "statusCode", "http_status", "httpStatus", "status"} {
		v, _ := o.Get(k)
		n, ok := v.Int64()
		if ok && (n == 408 || n == 425 || n == 429 || n >= 500 && n <= 599) {
			return true
		}
	}
	inner, _ := o.Get("error")
	return depth < 2 && transientObject(inner, depth+1)
}
