package sdpo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
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

// New returns a builder, or an error that explains why its configuration is invalid.
func New(cfg Config) (*Builder, error) {
	if err := errors.Join(schema.Validate(&cfg), cfg.relate()); err != nil {
		return nil, err
	}
	b, err := newBuilder(cfg)
	if err != nil {
		return nil, err
	}
	rules, err := newRules(cfg.Hints.Rules)
	if err != nil {
		return nil, err
	}
	for _, name := range cfg.Hints.Sources {
		var s source
		switch name {
		case sourceRules:
			s = rules
		case sourceSchema:
			s = schemaSource{}
		case sourceFeedback:
			if s, err = newFeedback(cfg.Hints.Feedback, cfg.Hints.MaxChars); err != nil {
				return nil, err
			}
		case sourceSuccess:
			s, b.siblings = successSource{leakRun: cfg.Hints.LeakRun}, true
		case sourceCommand:
			s = &commandSource{cfg: *cfg.Hints.Command, known: map[string]stored{}}
		}
		b.sources = append(b.sources, s)
	}
	return b, nil
}

// newBuilder returns a builder without hint sources. The config satisfies the rules in its tags.
func newBuilder(cfg Config) (*Builder, error) {
	d, err := newDetector(&cfg.Detect)
	return &Builder{
		cfg: cfg, detector: d, checker: newChecker(&cfg.Detect), writers: patterns(cfg.Detect.Writes),
	}, err
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
func (b *Builder) Build(ctx context.Context, g *ttc.Group, to builders.Output) error {
	out := &emit.Output{To: to}
	traces := make([][]*trace, len(g.Examples))
	sb := siblings{}
	compares := b.siblings || b.cfg.finds(divergence)
	for e, ex := range g.Examples {
		for _, leaf := range ex.Graph.Leaves() {
			if out.Over(ctx) {
				return out.Err
			}
			t := b.read(ex, ex.Graph.Branch(leaf))
			traces[e] = append(traces[e], t)
			if b.siblings {
				sb.add(t)
			}
		}
		if !compares { // no example needs another's traces, so drop them early
			b.example(ctx, g, e, traces[e], sb, out)
			traces[e] = nil
		}
	}
	if b.cfg.finds(divergence) {
		b.partings(traces)
	}
	for e := range traces {
		if compares && out.Err == nil {
			b.example(ctx, g, e, traces[e], sb, out)
		}
	}
	return out.Err
}

// work is the state of processing one example.
type work struct {
	*Builder
	ctx      context.Context
	out      *emit.Output
	group    *ttc.Group
	at       int // index of the example in the group
	siblings siblings
	// calls already seen or counted in an earlier branch, keyed by node and position in the node's message
	seen, counted map[[2]int]bool
	sites         int
	records       int
	failures      int
}

func (b *Builder) example(
	ctx context.Context, g *ttc.Group, e int, traces []*trace, sb siblings, out *emit.Output,
) {
	w := &work{
		Builder: b, ctx: ctx, out: out, group: g, at: e, siblings: sb,
		seen: map[[2]int]bool{}, counted: map[[2]int]bool{},
	}
	for _, t := range traces {
		if out.Over(ctx) {
			return
		}
		w.trace(t)
		t.words = nil
	}
	if w.records > 0 {
		return
	}
	d := w.drop("example", NoErrorSite, -1)
	if w.failures > 0 {
		d.Reason = NoSiteLeft
	} else if len(traces) > 0 {
		d.Reason = cmp.Or(traces[0].noParting, d.Reason)
	}
	out.Drop(d)
}

// first reports whether a call has not been seen before, and adds it to seen. A seq of -1 means the whole node.
func first(seen map[[2]int]bool, t *trace, at, seq int) bool {
	key := [2]int{t.nodes[at], seq}
	before := seen[key]
	seen[key] = true
	return !before
}

// trace builds records from the failures in a branch that don't occur in an earlier branch.
func (w *work) trace(t *trace) {
	w.countOrphans(t)
	w.countCalls(t)
	w.nearMisses(t)
	var sites []builders.Site
	var found []*failure // the failure that each site is based on
	last := 0            // position of the last message that a site needs
	for _, f := range w.sitesOf(t) {
		if !first(w.seen, t, f.turn, f.seq) {
			continue
		}
		w.failures++
		w.out.Count("found/"+f.rule, 1)
		if why := setAside(f); why != "" {
			w.dropSite(f, why, "")
			continue
		}
		for _, target := range w.targetsOf(f) {
			s := w.site(t, f, target)
			if s == nil {
				continue
			}
			sites, found = append(sites, *s), append(found, f)
			if last = max(last, f.turn, f.result); target == builders.NextTurn {
				last = max(last, t.nextTurn(f.result))
			}
		}
		if w.out.Over(w.ctx) {
			return
		}
		if f.parting == nil {
			w.repair(t, f)
		}
	}
	if len(sites) == 0 {
		return
	}
	w.records++
	w.out.Record(&builders.Distillation{
		Head:     builders.Head{Example: w.at, Metadata: foundBy(found)},
		Messages: emit.Span(w.at, t.nodes[last], 0),
		Sites:    sites,
	})
}

// targetsOf returns the turns that a failure's hint should change. A divergence doesn't have a next turn, because no
// error follows its action.
func (b *Builder) targetsOf(f *failure) []builders.Target {
	var all []builders.Target
	if !b.cfg.emits(emitDistillation) {
		return nil
	}
	if b.cfg.Target != "next_turn" {
		all = append(all, builders.FailedTurn)
	}
	if b.cfg.Target != "failed_turn" && f.parting == nil {
		all = append(all, builders.NextTurn)
	}
	return all
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
func foundBy(found []*failure) json.Raw {
	m, sep := []byte(`{"found_by": [`), ""
	for _, f := range found {
		m, sep = json.AppendString(append(m, sep...), f.rule), ", "
	}
	m = append(m, ']')
	for _, f := range found {
		if p := f.parting; p != nil {
			m = fmt.Appendf(m, `, "divergence": {"before": %v, "rollouts_before": %d, "after": %v, "rollouts_after": %d}`,
				p.before.mean, p.before.rollouts, p.after.mean, p.after.rollouts)
		}
	}
	return append(m, '}')
}

// countCalls counts the calls that were checked. Without a list of tools, neither unknown tools nor schema violations
// can be detected.
func (w *work) countCalls(t *trace) {
	n := int64(0)
	for i := range t.calls {
		if first(w.counted, t, t.calls[i].turn, t.calls[i].seq) {
			n++
		}
	}
	w.out.Count(countedCalls, n)
	if len(t.example.Tools) == 0 {
		w.out.Count(countedWithoutTools, n)
	}
}

// nearMisses emits a drop for each result that mentions a failure but doesn't count as one, with the rule and the
// evidence against it.
func (w *work) nearMisses(t *trace) {
	for i := range t.nearly {
		n := &t.nearly[i]
		if !first(w.seen, t, n.turn, n.seq) {
			continue
		}
		d := w.drop("result", NearMiss, n.turn)
		d.Detail = fmt.Sprintf("rule %s: %q, the result of %s; %s", n.rule, n.quote, brief(n.made.Name), n.why)
		w.out.Drop(d)
		w.out.Count("near_misses/"+n.rule, 1)
	}
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
func (w *work) site(t *trace, f *failure, target builders.Target) *builders.Site {
	s, why := t.locate(f, target)
	detail := ""
	var h hint
	switch {
	case why != "":
	case w.sites >= w.cfg.MaxSites:
		why = siteBudget
	case w.out.Over(w.ctx): // don't ask a source needlessly
		return nil
	default:
		s.siblings = w.siblings
		if h, why, detail = w.hintFor(w.ctx, &s); w.out.Over(w.ctx) {
			return nil
		}
	}
	if why != "" {
		w.dropSite(f, why, detail)
		return nil
	}
	w.sites++
	w.out.Count("sites/"+f.class+"/"+h.source+"/"+nameOf(h.kind), 1)
	if h.short {
		w.out.Count(countedShort, 1)
	}
	return &builders.Site{
		Call: f.turn, CallSeq: f.seq, Result: f.result, Target: target, Tool: f.made.Name, Error: f.class,
		Hint: h.text, HintSource: h.source, HintKind: h.kind,
	}
}

// countOrphans handles results that don't belong to a call. It drops a site for each such result that shows an error,
// and counts the others.
func (w *work) countOrphans(t *trace) {
	for _, at := range t.orphans {
		if !first(w.seen, t, at, -1) {
			continue
		}
		found := w.detector.read(&chat.ToolCall{Name: t.walk[at].Message.Name}, t.walk[at])
		if found.class == "" {
			w.out.Count("orphan_results", 1)
			continue
		}
		d := w.drop("site", orphanResult, at)
		d.Detail = found.class + " (rule " + found.rule + ")"
		w.out.Drop(d)
		w.failures++
	}
}

func (w *work) dropSite(f *failure, why ledger.Reason, detail string) {
	d := w.drop("site", why, f.turn)
	d.Detail = fmt.Sprintf("%s in the call to %s (rule %s)", f.class, brief(f.made.Name), f.rule)
	if detail != "" {
		d.Detail += ": " + brief(detail)
	}
	w.out.Drop(d)
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
func brief(s string) string { return emit.Brief(s, 160) }
