package scores

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Rule is an element of `dataset.score_rules`.
type Rule struct {
	Name   string   `yaml:"name" validate:"required" doc:"the rule's name, reported with the scores it produces"`
	Tool   string   `yaml:"tool" doc:"regular expression for the name of the tool; default: any tool"`
	Call   string   `yaml:"call" doc:"regular expression for the arguments of the call; default: any arguments"`
	Result string   `yaml:"result" validate:"required" doc:"regular expression for the result; a group named score captures the score"`
	Score  *float64 `yaml:"score" doc:"score to give if result has no group named score"`
}

// Evidence is the basis of a rule's score.
type Evidence struct {
	Rule    string
	Score   float64
	Message int // the result's index within its conversation
	Tool    string
	Quote   string // the line of the result that the rule matched
}

// Rules derive scores from the text of tool results.
type Rules struct {
	rules []rule
	given map[string]int64
}

type rule struct {
	Rule
	tool, call, result *regexp.Regexp // an empty expression matches anything
	group              int            // group of result that captures the score; -1 if none
}

// NewRules compiles rules. Its errors name the invalid setting.
func NewRules(rules []Rule) (*Rules, error) {
	out := &Rules{given: map[string]int64{}}
	for i, r := range rules {
		x := rule{Rule: r}
		for _, p := range []struct {
			key, pattern string
			into         **regexp.Regexp
		}{{"tool", r.Tool, &x.tool}, {"call", r.Call, &x.call}, {"result", r.Result, &x.result}} {
			var err error
			if *p.into, err = regexp.Compile(p.pattern); err != nil {
				return nil, fmt.Errorf("[%d].%s: %w", i, p.key, err)
			}
		}
		x.group = x.result.SubexpIndex("score")
		switch {
		case r.Result == "":
			return nil, fmt.Errorf("[%d].result is empty: expected a regular expression", i)
		case x.group < 0 && r.Score == nil:
			return nil, fmt.Errorf("[%d]: expected a score, or a group (?P<score>...) in result, got neither", i)
		case x.group >= 0 && r.Score != nil:
			return nil, fmt.Errorf("[%d]: expected a score, or a group (?P<score>...) in result, got both", i)
		}
		out.rules = append(out.rules, x)
	}
	return out, nil
}

// Give sets an example's score, if a rule matches one of its results.
func (r *Rules) Give(ex *ttc.Example) {
	if e, ok := r.Of(ex); ok {
		r.given[e.Rule]++
		ex.Reward = &e.Score
	}
}

// Given returns how many examples got their score from each rule.
func (r *Rules) Given() map[string]int64 { return r.given }

// Of returns the score that the rules give an example. The last result that any rule matches is decisive, and the first
// rule that matches it is used: tests that failed and were rerun are scored by the last run.
func (r *Rules) Of(ex *ttc.Example) (Evidence, bool) {
	walk := ex.Graph.Branch(last(&ex.Graph))
	for i, n := range slices.Backward(walk) {
		m := &ex.Graph.Nodes[n].Message
		if m.Role != "tool" && m.Role != "function" {
			continue
		}
		call := callOf(&ex.Graph, walk[:i], m)
		text := m.AllText()
		for k := range r.rules {
			if e, ok := r.rules[k].match(call, text); ok {
				e.Message = i
				return e, true
			}
		}
	}
	return Evidence{}, false
}

// last returns the leaf of the branch that holds the model's last answer.
func last(g *ttc.Graph) int {
	leaf := len(g.Nodes) - 1
	for i, n := range slices.Backward(g.Nodes) {
		if n.Sampled != ttc.No {
			leaf = i
			break
		}
	}
	for i := leaf + 1; i < len(g.Nodes); i++ { // unanswered results may follow
		if g.Nodes[i].Parent == leaf && g.Nodes[i].Message.Role != "assistant" {
			leaf = i
		}
	}
	return leaf
}

// callOf returns the call that a result answers, which is the last earlier call with the result's id. If there is no
// such call, callOf returns a call with only the name of the tool.
func callOf(g *ttc.Graph, before []int, result *chat.Message) chat.ToolCall {
	if result.ToolCallID != "" {
		for _, n := range slices.Backward(before) {
			for _, c := range g.Nodes[n].Message.ToolCalls {
				if c.ID == result.ToolCallID {
					return c
				}
			}
		}
	}
	return chat.ToolCall{Name: result.Name}
}

func (r *rule) match(call chat.ToolCall, text string) (Evidence, bool) {
	if !r.tool.MatchString(call.Name) || r.Call != "" && !r.call.MatchString(arguments(call)) {
		return Evidence{}, false
	}
	at := r.result.FindStringSubmatchIndex(text)
	if at == nil {
		return Evidence{}, false
	}
	e := Evidence{Rule: r.Name, Tool: call.Name, Quote: line(text, at[0], at[1])}
	if r.group < 0 {
		e.Score = *r.Score
		return e, true
	}
	from, to := at[2*r.group], at[2*r.group+1]
	if from < 0 {
		return Evidence{}, false
	}
	x, err := strconv.ParseFloat(text[from:to], 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return Evidence{}, false
	}
	e.Score = x
	return e, true
}

// arguments returns a call's arguments, one per line as "name: value", with their JSON escapes decoded, so that
// patterns see a command as it was typed.
func arguments(c chat.ToolCall) string {
	if c.Parsed == nil {
		return c.Arguments
	}
	var texts []string
	for key, v := range c.Parsed.Members() {
		name, _ := key.Text()
		s, ok := v.Text()
		if !ok {
			s = string(v)
		}
		texts = append(texts, name+": "+s)
	}
	return strings.Join(texts, "\n")
}

// line returns the line of text in which a match begins, shortened.
func line(text string, from, to int) string {
	const most = 160
	begin := max(strings.LastIndexByte(text[:from], '\n')+1, from-most/2)
	rest, _, _ := strings.Cut(text[to:], "\n")
	quote := text[begin : to+len(rest)]
	if i := strings.IndexByte(quote, '\n'); i >= from-begin && i > 0 {
		quote = quote[:i]
	}
	if len(quote) > most {
		quote = quote[:most] + "..."
	}
	return strings.TrimSpace(strings.ToValidUTF8(quote, ""))
}
