package sdpo

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/pyvalue"
)

// hint is the text that the teacher receives at a site.
type hint struct {
	text   string
	source string
	kind   builders.HintKind
	none   bool // the source rejects any hint here, and no other source is asked
	short  bool // the environment's message was too long and has been shortened
}

// source supplies hints. Empty text is not an answer unless the hint's none field is set. An error means that the
// source failed, and its text may be shown as the reason for a missing hint.
type source interface {
	hint(ctx context.Context, s *site) (hint, error)
}

// hintFor asks the sources in order; the first answer wins. If one fails, the next is asked; if none answers, the first
// failure is the reason for the missing hint.
func (b *Builder) hintFor(ctx context.Context, s *site, siblings *siblings) (h hint, why ledger.Reason, detail string) {
	why = noHint
	failure := ""
	for _, src := range b.sources {
		var err error
		if _, ok := src.(successSource); ok && s.parting != nil {
			h = s.siblingHint(b.cfg.Hints.LeakRun)
		} else if ok {
			h = siblings.hint(s)
		} else if h, err = src.hint(ctx, s); ctx.Err() != nil {
			return hint{}, hintFailed, context.Cause(ctx).Error()
		} else if err != nil {
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
			return h, hintTooLong, fmt.Sprintf(
				"%d characters from the source %s; the limit is %d",
				n,
				h.source,
				b.cfg.Hints.MaxChars,
			)
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

func (s *site) errorText() string {
	if len(s.text) <= maxError {
		return s.text
	}
	return strings.ToValidUTF8(s.text[:maxError], "") + "..."
}

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
		setting := fmt.Sprintf("hints.rules[%d]", i)
		x := rule{kind: kindOf(r.Kind), none: r.None}
		var err error
		for _, p := range []struct {
			to   **regexp.Regexp
			key  string
			text string
		}{
			{&x.tool, ".tool", r.Tool},
			{&x.err, ".error", r.Error},
			{&x.class, ".class", r.Class},
			{&x.errorKind, ".error_kind", r.ErrorKind},
		} {
			if *p.to, err = pattern(setting+p.key, p.text); err != nil {
				return nil, err
			}
		}
		if x.text, err = template.Compile(r.Text); err != nil {
			return nil, fmt.Errorf("%s.text: %w", setting, err)
		}
		out = append(out, x)
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
	if err != nil {
		return template.Input{}, err
	}
	vars := &pyvalue.Dict{}
	vars.SetStr("tool", pyvalue.Str(s.made.Name))
	args := pyvalue.Str(s.made.Arguments)
	if raw, why := arguments(s.made); why == "" {
		if args, err = pyvalue.Parse(raw); err != nil {
			return template.Input{}, err
		}
	}
	vars.SetStr("arguments", args)
	vars.SetStr("error", pyvalue.Str(failed))
	vars.SetStr("class", pyvalue.Str(s.class))
	vars.SetStr("error_kind", pyvalue.Str(s.told.kind))
	meta := pyvalue.None
	if s.told.meta != nil {
		if meta, err = pyvalue.Parse(s.told.meta); err != nil {
			return template.Input{}, err
		}
	}
	vars.SetStr("error_meta", meta)
	schema := pyvalue.None
	if t := s.tool(); t != nil {
		if raw := parameters(t); raw != nil {
			if schema, err = pyvalue.Parse(raw); err != nil {
				return template.Input{}, err
			}
		}
	}
	vars.SetStr("schema", schema)
	names := []pyvalue.Value{}
	for i := range s.example.Tools {
		names = append(names, pyvalue.Str(s.example.Tools[i].Name))
	}
	vars.SetStr("tool_names", pyvalue.NewList(names))
	problems := []pyvalue.Value{}
	if s.fault != nil {
		for _, p := range s.fault.detail {
			problems = append(problems, pyvalue.Str(p))
		}
	}
	vars.SetStr("problems", pyvalue.NewList(problems))
	return template.Input{Tools: tools, Kwargs: vars, Limits: ruleLimits}, nil
}

// schemaSource derives hints from the tool list and the tool's schema. It handles only faults in the call itself, as
// found by the checker or, failing that, as reported by the source; see told.go.
type schemaSource struct{}

func (schemaSource) hint(_ context.Context, s *site) (hint, error) {
	text := ""
	if s.fault == nil {
		text = s.toldHint()
	} else {
		text = s.faultHint()
	}
	return hint{text: text, source: sourceSchema, kind: builders.Knowable}, nil
}

func (s *site) faultHint() (text string) {
	switch s.fault.class {
	case argumentsNotJSON:
		text = fmt.Sprintf(
			"The arguments of %s must be one JSON object: %s.",
			s.made.Name,
			strings.Join(s.fault.detail, "; "),
		)
	case unknownTool:
		text = fmt.Sprintf("There is no tool %s. The tools are: %s.", s.made.Name, s.toolNames())
	case badSchema:
		text = fmt.Sprintf("The arguments of %s must fit its schema: %s.", s.made.Name,
			joinFirst(s.fault.detail, 8, "; "))
	}
	return text
}

// toolNames returns the names of the trace's tools or, if it lists none, the names that the source reports.
func (s *site) toolNames() string {
	var names []string
	for i := range s.example.Tools {
		names = append(names, s.example.Tools[i].Name)
	}
	if len(names) == 0 {
		names = s.told.tools()
	}
	return joinFirst(names, 60, ", ")
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
	f := &feedbackSource{text: t, maxChars: most, wording: map[string]bool{}}
	for _, w := range nameWords(text) {
		f.wording[w] = true
	}
	return f, nil
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

// shortened omits the middle of a text, leaving at most the given number of characters, because an error begins with
// the failed action and ends with the reason.
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
