package sdpo

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/lists"
)

// Config is the `trajectory_builders.<name>` section with `_type: sdpo_traj_builder`.
type Config struct {
	Target   string   `yaml:"target" default:"failed_turn" validate:"oneof=failed_turn next_turn both" doc:"which turn the hinted teacher re-scores: the one that made the failing call, or the one after the error"`
	MaxSites int      `yaml:"max_sites_per_example" default:"8" validate:"gte=1" doc:"sites per example beyond this number are dropped, last ones first"`
	Sites    []string `yaml:"sites" default:"[failed_calls]" validate:"min=1,dive,oneof=failed_calls divergence" doc:"kinds of site to look for: failed_calls, or divergence, the action at which a scored rollout diverges from better ones for the same task (failed_turn only)"`
	Detect   Detect   `yaml:"detect" doc:"detection of failed calls"`
	Hints    Hints    `yaml:"hints" doc:"hints for the teacher"`
	Emit     []string `yaml:"emit" default:"[distillation]" validate:"min=1,dive,oneof=distillation repair_pairs demonstrations" doc:"kinds of record to emit for a site; the last two require a later successful call to the same tool, and are off-policy"`
}

// Detect configures the detection of failed calls.
type Detect struct {
	Results     []string `yaml:"results" default:"[flag, exit_code, status, exception, message]" validate:"dive,oneof=flag exit_code status exception message" doc:"kinds of evidence in a result to consider"`
	Silence     []string `yaml:"silence" validate:"dive,oneof=source_flag result_flag exit_code time_limit rpc_error error_object status_object error_page framework_text traceback error_prefix program_message http_status refusal wording" doc:"rules to switch off; the builder's README describes each"`
	Calls       []string `yaml:"calls" default:"[arguments_not_json, unknown_tool, schema]" validate:"dive,oneof=arguments_not_json unknown_tool schema" doc:"faults in a call that count as a failure regardless of its result"`
	Match       []Match  `yaml:"match" validate:"dive" doc:"your own rules, tried first: additional results that mean failure; the first match counts"`
	NextTurn    bool     `yaml:"next_turn" default:"true" doc:"let the agent's next turn (an apology, or another call to the tool) decide cases that a rule leaves open; it is never evidence on its own"`
	Transient   []string `yaml:"transient" validate:"dive,pattern" doc:"additional patterns for errors that are not the fault of the call (timeouts, 429 and 5xx are built in)"`
	Writes      []string `yaml:"writes" validate:"dive,pattern" doc:"for divergence: patterns for the names of tools that change something; default: all tools that aren't marked readOnlyHint, don't begin with a word like get, list or search, and don't hand over to a person"`
	IgnoreTools []string `yaml:"ignore_tools" validate:"dive,pattern" doc:"patterns for the names of tools whose results never count as errors"`
}

// Match describes a result that means failure.
type Match struct {
	Name     string `yaml:"name" doc:"name of the rule, as counted and shown; default: match[0], match[1], ..."`
	Tool     string `yaml:"tool" validate:"pattern" doc:"pattern for the tool's name; default: any tool"`
	Pattern  string `yaml:"pattern" validate:"required_without=JSONPath,pattern" doc:"pattern for the result's text, or for the value at json_path"`
	JSONPath string `yaml:"json_path" doc:"path of a value in a JSON result, like $.result.errors[0].code; without a pattern, the value means failure unless it is null, false, 0 or empty"`
	Class    string `yaml:"class" default:"tool_error" doc:"name of the error class"`
}

// Hints configures the teacher's hints.
type Hints struct {
	Allow    []string `yaml:"allow" default:"[knowable, hindsight]" validate:"dive,oneof=knowable hindsight" doc:"kinds of hint to allow. knowable: the model could have known it from schema, tool list, format, policy or what it had read; hindsight: known only from the environment or another rollout"`
	Sources  []string `yaml:"sources" default:"[rules, schema, feedback]" validate:"dive,oneof=rules schema feedback success command" doc:"hint sources, asked in this order; the first answer wins. feedback repeats the environment's own message, which is knowable if everything it names is already in the context, otherwise hindsight"`
	Feedback string   `yaml:"feedback" default:"A{% if tool %} call of {{ tool }}{% else %}n action{% endif %} was tried here before and failed: {{ error | trim }}" validate:"required" doc:"wording of hints from the source feedback: a template with the same variables as a rule's text"`
	Rules    []Rule   `yaml:"rules" validate:"dive" doc:"hint rules for the source rules, tried in order: the first match counts"`
	Command  *Command `yaml:"command" doc:"program for the source command"`
	MaxChars int      `yaml:"max_chars" default:"2000" validate:"gte=1,lte=100000" doc:"a longer hint is refused, except that the source feedback shortens a long error by omitting its middle"`
	LeakRun  int      `yaml:"leak_run" default:"5" validate:"gte=2" doc:"number of consecutive words that a hint must not share with its turn"`
}

// Rule is a hint for one kind of error.
type Rule struct {
	Tool  string `yaml:"tool" validate:"pattern" doc:"pattern for the tool's name"`
	Error string `yaml:"error" validate:"pattern" doc:"pattern for the error's text"`
	Class string `yaml:"class" validate:"pattern" doc:"pattern for the error class"`

	ErrorKind string `yaml:"error_kind" validate:"pattern" doc:"pattern for the kind of error given by the source (tool_error)"`

	Text string `yaml:"text" validate:"required_without=None,excluded_with=None" doc:"the hint: a template with tool, arguments, error, class, error_kind, error_meta, schema and tools"`

	None bool   `yaml:"none" default:"false" doc:"give no hint: the site is dropped, and no other source is asked"`
	Kind string `yaml:"kind" default:"knowable" validate:"omitempty,oneof=knowable hindsight" doc:"kind of the hint: whether the model could have known its content"`
}

// Command is a program that supplies hints.
type Command struct {
	Run     []string      `yaml:"run" validate:"required,min=1" doc:"program and arguments; the program reads one JSON object per line and answers each with one JSON object"`
	Timeout time.Duration `yaml:"timeout" default:"30s" validate:"gte=100ms" doc:"time limit per answer"`
	Answers string        `yaml:"answers" validate:"required" doc:"file that stores each answer under the hash of its question: a stored question is never asked again"`
	Kind    string        `yaml:"kind" default:"hindsight" validate:"oneof=knowable hindsight" doc:"default kind for answers that don't state one"`
}

// The kinds of site.
const (
	failedCalls = "failed_calls"
	divergence  = "divergence" // also the class and rule of its sites
)

// The kinds of record that a site can yield.
const (
	emitDistillation   = "distillation"
	emitRepairPairs    = "repair_pairs"
	emitDemonstrations = "demonstrations"
)

// The hint sources.
const (
	sourceRules    = "rules"
	sourceSchema   = "schema"
	sourceFeedback = "feedback"
	sourceSuccess  = "success"
	sourceCommand  = "command"
)

// kindOf converts a name to a kind of hint.
func kindOf(name string) builders.HintKind {
	if name == "hindsight" {
		return builders.Hindsight
	}
	return builders.Knowable
}

func (c *Config) finds(sites string) bool { return slices.Contains(c.Sites, sites) }

func (c *Config) emits(what string) bool { return slices.Contains(c.Emit, what) }

// nameOf is the inverse of kindOf.
func nameOf(k builders.HintKind) string {
	return []string{builders.Knowable: "knowable", builders.Hindsight: "hindsight"}[k]
}

func (h *Hints) allows(k builders.HintKind) bool { return slices.Contains(h.Allow, nameOf(k)) }

// notAsked lists the hint sources that were not asked, and explains why feedback didn't supply a hint.
func (c *Config) notAsked(target builders.Target) string {
	var others []string
	for _, s := range []string{sourceRules, sourceSchema, sourceFeedback, sourceSuccess, sourceCommand} {
		if !slices.Contains(c.Hints.Sources, s) || s == sourceRules && len(c.Hints.Rules) == 0 {
			others = append(others, s)
		}
	}
	text := ""
	if target == builders.NextTurn && slices.Contains(c.Hints.Sources, sourceFeedback) {
		text = "feedback is not used for the target next_turn, which has already seen the error; "
	}
	if others == nil {
		return text + "all sources were asked"
	}
	return text + "not asked: " + strings.Join(others, ", ") + " (hints.sources)"
}

// relate finds settings that are valid individually but can't be combined. The rules for a single setting are in its
// tag.
func (c *Config) relate() error {
	h := &c.Hints
	for _, s := range h.Sources {
		switch {
		case s == sourceFeedback && c.Target == "next_turn" && len(h.Sources) == 1:
			return errors.New("hints.sources: feedback adds nothing for the target next_turn, which sees the error anyway: add another source or use target: failed_turn")
		case s == sourceSuccess && !h.allows(builders.Hindsight):
			return fmt.Errorf("hints.sources: the source %s produces hindsight, which hints.allow does not include: add hindsight or remove the source", s)
		case s == sourceCommand && h.Command == nil:
			return errors.New("hints.sources: the source command needs hints.command")
		case s == sourceRules && len(h.Rules) == 0 && len(h.Sources) == 1:
			return errors.New("hints.sources: the source rules needs hints.rules")
		}
	}
	hinted := func(source string) bool { return slices.Contains(h.Sources, source) }
	if c.finds(divergence) {
		switch {
		case !c.emits(emitDistillation) || c.Target == "next_turn":
			return errors.New("sites: divergence requires emit: [distillation] and target: failed_turn, since no " +
				"error follows the action")
		case !hinted(sourceSuccess) && !hinted(sourceCommand) && len(h.Rules) == 0:
			return errors.New("sites: divergence needs a hint source that uses other rollouts: add success to " +
				"hints.sources, or command or rules of your own")
		}
	}
	if len(h.Sources) == 0 && c.emits(emitDistillation) {
		return errors.New("hints.sources is empty: distillation needs a hint")
	}
	return nil
}

// patterns compiles a list of patterns that has been validated.
func patterns(list []string) []*regexp.Regexp { return lists.Map(list, regexp.MustCompile) }

// pattern compiles a pattern that has been validated; it returns nil if the pattern is empty.
func pattern(p string) *regexp.Regexp {
	if p == "" {
		return nil
	}
	return regexp.MustCompile(p)
}

func fits(re *regexp.Regexp, s string) bool { return re == nil || re.MatchString(s) }

func anyFits(list []*regexp.Regexp, s string) bool {
	return slices.ContainsFunc(list, func(re *regexp.Regexp) bool { return re.MatchString(s) })
}
