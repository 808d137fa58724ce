package sdpo

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/builders/internal/evidence"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// hint is the text that the teacher receives at a site.
type hint struct {
	text   string
	source string
	kind   builders.HintKind
	none   bool // the source rules out a hint here, so no other source is asked
	short  bool // the environment's message was too long and has been shortened
}

// source supplies hints. Empty text is not an answer unless none is set. An error means that the source failed; its
// text may be shown as the reason for a missing hint.
type source interface {
	hint(ctx context.Context, s *site) (hint, error)
}

// hintFor asks the sources in order and returns the first answer. If a source fails, it asks the next. If none
// answers, the first failure is the reason for the missing hint.
func (b *Builder) hintFor(ctx context.Context, s *site) (h hint, why ledger.Reason, detail string) {
	why = noHint
	failure := ""
	for _, src := range b.sources {
		var err error
		if h, err = src.hint(ctx, s); err != nil {
			failure = cmp.Or(failure, err.Error())
			continue
		}
		if h.none {
			return h, hintDeclined, "by the source " + h.source
		}
		if strings.TrimSpace(h.text) == "" {
			continue
		}
		if !b.cfg.Hints.allows(h.kind) {
			why, detail = hintNotAllowed, "the source "+h.source+" answered with hindsight"
			if h.kind == builders.Knowable {
				detail = "the source " + h.source + " answered with something knowable"
			}
			continue
		}
		if n := utf8.RuneCountInString(h.text); n > b.cfg.Hints.MaxChars {
			return h, hintTooLong, fmt.Sprintf("%d characters from the source %s; the limit is %d",
				n, h.source, b.cfg.Hints.MaxChars)
		}
		if leaks(h.text, s.targetText(), b.cfg.Hints.LeakRun) {
			return h, ledger.HintContainsTarget, "by the source " + h.source
		}
		return h, "", ""
	}
	if failure != "" {
		return hint{}, hintFailed, failure
	}
	if why == noHint {
		detail = b.cfg.notAsked(s.target)
	}
	return hint{}, why, detail
}

// maxError is the maximum length in bytes of an error's text in a hint.
const maxError = 8 << 10

func (s *site) errorText() string { return emit.Brief(s.text, maxError) }

// ruleSource answers with the first of the user's rules that matches.
type ruleSource []rule

type rule struct {
	tool, err, class, errorKind *regexp.Regexp

	text *template.Template
	kind builders.HintKind
	none bool
}

func newRules(rules []Rule) (ruleSource, error) {
	var out ruleSource
	for i, r := range rules {
		text, err := template.Compile(r.Text)
		if err != nil {
			return nil, fmt.Errorf("hints.rules[%d].text: %w", i, err)
		}
		out = append(out, rule{
			tool: pattern(r.Tool), err: pattern(r.Error), class: pattern(r.Class), errorKind: pattern(r.ErrorKind),
			text: text, kind: kindOf(r.Kind), none: r.None,
		})
	}
	return out, nil
}

// ruleLimits bound the rendering of a hint.
var ruleLimits = template.Limits{Steps: 1_000_000, Bytes: 16 << 20}

func (rs ruleSource) hint(_ context.Context, s *site) (hint, error) {
	for i, r := range rs {
		if !fits(r.tool, s.made.Name) || !fits(r.err, s.text) || !fits(r.class, s.class) ||
			!fits(r.errorKind, s.told.kind) {
			continue
		}
		if r.none {
			return hint{source: sourceRules, none: true}, nil
		}
		in, err := s.variables(s.errorText())
		if err != nil {
			return hint{}, fmt.Errorf("hints.rules[%d]: %w", i, err)
		}
		res, err := r.text.Render(in)
		if err != nil {
			return hint{}, fmt.Errorf("hints.rules[%d].text: %w", i, err)
		}
		if text := strings.TrimSpace(res.Text); text != "" {
			return hint{text: text, source: sourceRules, kind: r.kind}, nil
		}
	}
	return hint{}, nil
}

// variables returns the names that a rule's text can use: tool, arguments (an object, or text if they can't be parsed
// as one), error, class, error_kind and error_meta (the source's annotations of the error: tool_error and error_meta
// next to the message), schema (of the arguments, or none), tools (the definitions), tool_names, and problems (the
// faults of the call itself).
func (s *site) variables(failed string) (template.Input, error) {
	tools, err := template.ToolList(s.example.Tools)
	parsed := func(raw json.Raw, or pyvalue.Value) pyvalue.Value {
		if raw == nil {
			return or
		}
		v, wrong := pyvalue.Parse(raw)
		err = cmp.Or(err, wrong)
		return v
	}
	list := func(texts []string) pyvalue.Value { return pyvalue.NewList(lists.Map(texts, pyvalue.Str)) }
	args, _ := arguments(s.made)
	var problems []string
	if s.fault != nil {
		problems = s.fault.detail
	}
	vars := &pyvalue.Dict{}
	vars.SetStr("tool", pyvalue.Str(s.made.Name))
	vars.SetStr("arguments", parsed(args, pyvalue.Str(s.made.Arguments)))
	vars.SetStr("error", pyvalue.Str(failed))
	vars.SetStr("class", pyvalue.Str(s.class))
	vars.SetStr("error_kind", pyvalue.Str(s.told.kind))
	vars.SetStr("error_meta", parsed(s.told.meta, pyvalue.None))
	vars.SetStr("schema", parsed(parameters(s.tool()), pyvalue.None))
	vars.SetStr("tool_names", list(names(s.example.Tools)))
	vars.SetStr("problems", list(problems))
	return template.Input{Tools: tools, Kwargs: vars, Limits: ruleLimits}, err
}

// schemaSource derives hints from the tool list and the tool's schema. It handles only faults in the call itself, found
// by the checker or else reported by the source; see told.go.
type schemaSource struct{}

func (schemaSource) hint(_ context.Context, s *site) (hint, error) {
	text := s.toldHint()
	if s.fault != nil {
		text = s.faultHint()
	}
	return hint{text: text, source: sourceSchema, kind: builders.Knowable}, nil
}

func (s *site) faultHint() string {
	name, detail := s.made.Name, s.fault.detail
	switch s.fault.class {
	case argumentsNotJSON:
		return fmt.Sprintf("The arguments of %s must be one JSON object: %s.", name, strings.Join(detail, "; "))
	case unknownTool:
		return fmt.Sprintf("There is no tool %s. The tools are: %s.", name, s.toolNames())
	}
	return fmt.Sprintf("The arguments of %s must fit its schema: %s.", name, joinFirst(detail, 8, "; "))
}

// toolNames returns the names of the trace's tools or, if it lists none, the names that the source reports.
func (s *site) toolNames() string {
	all := names(s.example.Tools)
	if len(all) == 0 {
		all = s.told.tools()
	}
	return joinFirst(all, 60, ", ")
}

func names(tools []chat.Tool) []string {
	return lists.Map(tools, func(t chat.Tool) string { return t.Name })
}

// joinFirst joins the first few items of a list.
func joinFirst(list []string, most int, by string) string {
	if len(list) <= most {
		return strings.Join(list, by)
	}
	return strings.Join(list[:most], by) + fmt.Sprintf("%sand %d more", by, len(list)-most)
}

// feedbackSource repeats the environment's message, which the turn after the error has already seen.
type feedbackSource struct {
	text     *template.Template
	maxChars int             // maximum length of a hint in characters
	wording  map[string]bool // words in the template
}

func newFeedback(text string, most int) (*feedbackSource, error) {
	t, err := template.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("hints.feedback: %w", err)
	}
	return &feedbackSource{text: t, maxChars: most, wording: evidence.Set(nameWords(text))}, nil
}

func (f *feedbackSource) hint(_ context.Context, s *site) (hint, error) {
	if s.target == builders.NextTurn || strings.TrimSpace(s.text) == "" {
		return hint{}, nil
	}
	failed := s.errorText()
	text, err := f.render(s, failed)
	over := utf8.RuneCountInString(text) - f.maxChars
	if err == nil && over > 0 {
		text, err = f.render(s, shortened(failed, utf8.RuneCountInString(failed)-over))
	}
	if err != nil {
		return hint{}, fmt.Errorf("hints.feedback: %w", err)
	}
	return hint{text: text, source: sourceFeedback, kind: s.kindOfHint(text, f.wording), short: over > 0}, nil
}

func (f *feedbackSource) render(s *site, failed string) (string, error) {
	in, err := s.variables(failed)
	if err != nil {
		return "", err
	}
	res, err := f.text.Render(in)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(res.Text), nil
}

// shortened omits the middle of s, leaving at most the given number of characters, because an error begins with the
// failed action and ends with the reason.
func shortened(s string, most int) string {
	const between = "\n...\n"
	runes := []rune(s)
	most -= utf8.RuneCountInString(between)
	if most < 2 || most >= len(runes) {
		return s
	}
	begin := most / 3
	return string(runes[:begin]) + between + string(runes[len(runes)-(most-begin):])
}
