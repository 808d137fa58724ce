package sdpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Info describes the builder. Its unit is the task because divergences and the hint source "success" need siblings.
func Info() builders.Info {
	return builders.Info{
		Name:      "sdpo_traj_builder",
		Version:   "1.0.0",
		Stability: "beta",
		Doc:       "failed tool calls, each with a hint, for self-distillation; or pairs and demonstrations made from them",
		Unit:      builders.UnitTask,
		Kinds:     []builders.Kind{builders.KindDistillation, builders.KindPreference, builders.KindDemonstration},
		Config:    new(Config),
	}
}

// Builder finds error sites and hints. Build may be called concurrently.
type Builder struct {
	cfg      Config
	detector *detector
	checker  *checker
	sources  []source
	siblings bool // whether a source looks at siblings
	writers  []*regexp.Regexp
}

var _ builders.Builder = (*Builder)(nil)

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	if err := errors.Join(schema.Validate(&cfg), cfg.relate()); err != nil {
		return nil, err
	}
	d, err := newDetector(&cfg.Detect)
	if err != nil {
		return nil, err
	}
	b := &Builder{cfg: cfg, detector: d, checker: newChecker(&cfg.Detect)}
	if b.writers, err = patterns("detect.writes", cfg.Detect.Writes); err != nil {
		return nil, err
	}
	rules, err := newRules(cfg.Hints.Rules)
	if err != nil {
		return nil, err
	}
	for _, name := range cfg.Hints.Sources {
		switch name {
		case sourceRules:
			b.sources = append(b.sources, rules)
		case sourceSchema:
			b.sources = append(b.sources, schemaSource{})
		case sourceFeedback:
			feedback, err := newFeedback(cfg.Hints.Feedback, cfg.Hints.MaxChars)
			if err != nil {
				return nil, err
			}
			b.sources = append(b.sources, feedback)
		case sourceSuccess:
			b.sources, b.siblings = append(b.sources, successSource{}), true
		case sourceCommand:
			b.sources = append(b.sources, &commandSource{cfg: *cfg.Hints.Command, known: map[string]stored{}})
		default:
			return nil, fmt.Errorf("hints.sources: unknown source %q", name)
		}
	}
	return b, nil
}

// Close ends the hint command, if one is running.
func (b *Builder) Close() error {
	for _, s := range b.sources {
		if c, ok := s.(*commandSource); ok {
			c.close()
		}
	}
	return nil
}

// Build finds the sites in each of the group's examples.
func (b *Builder) Build(ctx context.Context, g *ttc.Group, out builders.Output) error {
	traces := make([][]*trace, len(g.Examples))
	var sb siblings
	if b.siblings {
		sb.byPrompt = map[xxh3.Uint128][]*chat.ToolCall{}
	}
	for e, ex := range g.Examples {
		for _, leaf := range ex.Graph.Leaves() {
			if err := ctx.Err(); err != nil {
				return err
			}
			t := b.read(ex, ex.Graph.Branch(leaf))
			traces[e] = append(traces[e], t)
			if b.siblings {
				sb.add(t)
			}
		}
		if !b.siblings && !b.cfg.finds(divergence) { // no example needs another's traces, so drop them early
			if err := b.example(ctx, g, e, traces[e], &sb, out); err != nil {
				return err
			}
			traces[e] = nil
		}
	}
	if b.cfg.finds(divergence) {
		b.partings(traces)
	}
	if b.siblings || b.cfg.finds(divergence) {
		for e := range g.Examples {
			if err := b.example(ctx, g, e, traces[e], &sb, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// work is the state of processing one example.
type work struct {
	*Builder
	ctx      context.Context
	out      builders.Output
	group    *ttc.Group
	at       int // index of the example in the group
	siblings *siblings
	// calls already seen in an earlier branch, keyed by node and position in the node's message
	seen     map[[2]int]bool
	counted  map[[2]int]bool // calls already counted in an earlier branch, keyed like seen
	sites    int
	records  int
	failures int
}

func (b *Builder) example(
	ctx context.Context, g *ttc.Group, e int, traces []*trace, sb *siblings, out builders.Output,
) error {
	w := &work{
		Builder:  b,
		ctx:      ctx,
		out:      out,
		group:    g,
		at:       e,
		siblings: sb,
		seen:     map[[2]int]bool{},
		counted:  map[[2]int]bool{},
	}
	for _, t := range traces {
		if err := w.trace(t); err != nil {
			return err
		}
		t.words = nil
	}
	if w.records > 0 {
		return nil
	}
	d := w.drop("example", NoErrorSite, -1)
	if w.failures > 0 {
		d.Reason = NoSiteLeft
	} else if len(traces) > 0 {
		d.Reason = cmp.Or(traces[0].noParting, d.Reason)
	}
	return out.Drop(d)
}

// trace builds records from the failures in a branch that don't occur in an earlier branch.
func (w *work) trace(t *trace) error {
	if err := w.countOrphans(t); err != nil {
		return err
	}
	if err := w.countCalls(t); err != nil {
		return err
	}
	if err := w.nearMisses(t); err != nil {
		return err
	}
	var sites []builders.Site
	var rules []string // the rules that found the sites
	var partings []*parting
	last := 0 // position of the last message that a site needs
	for _, f := range w.sitesOf(t) {
		key := [2]int{t.nodes[f.turn], f.seq}
		if w.seen[key] {
			continue
		}
		w.seen[key] = true
		w.failures++
		if err := w.out.Count("found/"+f.rule, 1); err != nil {
			return err
		}
		if why := setAside(f); why != "" {
			if err := w.dropSite(f, why, ""); err != nil {
				return err
			}
			continue
		}
		for _, target := range w.targetsOf(f) {
			s, err := w.site(t, f, target)
			if err != nil {
				return err
			}
			if s == nil {
				continue
			}
			sites, rules, partings = append(sites, *s), append(rules, f.rule), append(partings, f.parting)
			if last = max(last, f.turn, f.result); target == builders.NextTurn {
				last = max(last, t.nextTurn(f.result))
			}
		}
		if f.parting != nil {
			continue
		}
		if err := w.repair(t, f); err != nil {
			return err
		}
	}
	if len(sites) == 0 {
		return nil
	}
	w.records++
	return w.out.Record(&builders.Distillation{
		Head:     builders.Head{Example: w.at, Metadata: foundBy(rules, partings)},
		Messages: builders.Content{Ref: builders.Ref{Part: builders.NodeSpan, Example: w.at, Last: t.nodes[last]}},
		Sites:    sites,
	})
}

// targetsOf returns the turns that a failure's hint should change. A parting doesn't have a next turn, since no error
// follows its action.
func (b *Builder) targetsOf(f *failure) []builders.Target {
	switch {
	case !b.cfg.emits(emitDistillation):
		return nil
	case f.parting != nil:
		next := func(t builders.Target) bool { return t == builders.NextTurn }
		return slices.DeleteFunc(slices.Clone(b.cfg.targets()), next)
	}
	return b.cfg.targets()
}

// sitesOf returns the points in a trace where a site is possible, in order.
func (b *Builder) sitesOf(t *trace) (all []*failure) {
	if b.cfg.finds(failedCalls) {
		for i := range t.failures {
			all = append(all, &t.failures[i])
		}
	}
	if t.parted != nil {
		all = append(all, t.parted)
		slices.SortStableFunc(all, func(x, y *failure) int { return cmp.Or(x.turn-y.turn, x.seq-y.seq) })
	}
	return all
}

// foundBy returns a record's metadata: the rule that found each of its sites and, for a divergence, the mean reward and
// number of rollouts in the states before and after it.
func foundBy(rules []string, partings []*parting) json.Raw {
	m := []byte(`{"found_by": [`)
	for i, r := range rules {
		if i > 0 {
			m = append(m, ", "...)
		}
		m = json.AppendString(m, r)
	}
	m = append(m, ']')
	for _, p := range partings {
		if p != nil {
			m = fmt.Appendf(m, `, "divergence": {"before": %v, "rollouts_before": %d, "after": %v, "rollouts_after": %d}`,
				p.before.mean, p.before.rollouts, p.after.mean, p.after.rollouts)
		}
	}
	return append(m, '}')
}

// countCalls counts the calls that were judged. Without a list of tools, neither unknown tools nor schema violations
// can be detected.
func (w *work) countCalls(t *trace) error {
	n := int64(0)
	for i := range t.calls {
		key := [2]int{t.nodes[t.calls[i].turn], t.calls[i].seq}
		if !w.counted[key] {
			w.counted[key] = true
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if err := w.out.Count(countedCalls, n); err != nil || len(t.example.Tools) > 0 {
		return err
	}
	return w.out.Count(countedWithoutTools, n)
}

// nearMisses emits a drop for each result that mentions a failure but isn't one, with the rule and the evidence against
// it.
func (w *work) nearMisses(t *trace) error {
	for i := range t.nearly {
		n := &t.nearly[i]
		key := [2]int{t.nodes[n.turn], n.seq}
		if w.seen[key] {
			continue
		}
		w.seen[key] = true
		d := w.drop("result", NearMiss, n.turn)
		d.Detail = fmt.Sprintf("rule %s: %q, the result of %s; %s", n.rule, n.quote, brief(n.made.Name), n.why)
		if err := w.out.Drop(d); err != nil {
			return err
		}
		if err := w.out.Count("near_misses/"+n.rule, 1); err != nil {
			return err
		}
	}
	return nil
}

// setAside returns the reason a failure is not a site for any target, if there is one.
func setAside(f *failure) ledger.Reason {
	switch {
	case f.transient:
		return TransientError
	case f.repeated:
		return RepeatedFailure
	}
	return ""
}

// site finds the target and the hint for a failure. If either is missing, it drops the site and returns nil.
func (w *work) site(t *trace, f *failure, target builders.Target) (*builders.Site, error) {
	s, why := t.locate(f, target)
	detail := ""
	var h hint
	switch {
	case why != "":
	case w.sites >= w.cfg.MaxSites:
		why = siteBudget
	default:
		h, why, detail = w.hintFor(w.ctx, &s, w.siblings)
		if err := w.ctx.Err(); err != nil {
			return nil, err
		}
	}
	if why != "" {
		return nil, w.dropSite(f, why, detail)
	}
	w.sites++
	kind := "knowable"
	if h.kind == builders.Hindsight {
		kind = "hindsight"
	}
	if err := w.out.Count("sites/"+f.class+"/"+h.source+"/"+kind, 1); err != nil {
		return nil, err
	}
	if h.short {
		if err := w.out.Count(countedShort, 1); err != nil {
			return nil, err
		}
	}
	return &builders.Site{
		Call: f.turn, CallSeq: f.seq, Result: f.result, Target: target, Tool: f.made.Name, Error: f.class,
		Hint: h.text, HintSource: h.source, HintKind: h.kind,
	}, nil
}

// countOrphans handles results that don't belong to a call. It drops a site for each one that shows an error, and
// counts the others.
func (w *work) countOrphans(t *trace) error {
	for _, at := range t.orphans {
		key := [2]int{t.nodes[at], -1}
		if w.seen[key] {
			continue
		}
		w.seen[key] = true
		if found := w.detector.read(&chat.ToolCall{Name: t.walk[at].Message.Name}, t.walk[at]); found.class != "" {
			d := w.drop("site", orphanResult, at)
			d.Detail = found.class + " (rule " + found.rule + ")"
			if err := w.out.Drop(d); err != nil {
				return err
			}
			w.failures++
			continue
		}
		if err := w.out.Count("orphan_results", 1); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) dropSite(f *failure, why ledger.Reason, detail string) error {
	d := w.drop("site", why, f.turn)
	d.Detail = fmt.Sprintf("%s in the call to %s (rule %s)", f.class, brief(f.made.Name), f.rule)
	if detail != "" {
		d.Detail += ": " + brief(detail)
	}
	return w.out.Drop(d)
}

func (w *work) drop(unit string, why ledger.Reason, index int) ledger.Drop {
	d := builders.NewDrop(w.group.Examples[w.at], unit, why)
	d.Index = index
	return d
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// brief returns the start of s, for display on one line.
func brief(s string) string {
	const most = 160
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
