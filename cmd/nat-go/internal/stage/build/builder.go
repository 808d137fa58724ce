package build

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Builder is one of the run's builders, with a session to its process. A Builder with only a name counts the names in a
// log.
type Builder struct {
	Name  string // the builder's name in the YAML
	Unit  builders.Unit
	picks bool                // whether the builder builds preferences or demonstrations
	rules *readers.ScoreRules // the rules in dataset.score_rules; nil means none

	kinds   map[stage.DropKind]bool // kinds of the builder's drops in the log
	names   map[string]bool         // names of the builder's counters in the log
	over    bool                    // whether the builder used more than maxNames kinds or names
	session *host.Session
}

func newBuilder(name string, unit builders.Unit, kinds []builders.Kind) Builder {
	return Builder{Name: name, Unit: unit, picks: slices.ContainsFunc(kinds, func(k builders.Kind) bool {
		return k == builders.KindPreference || k == builders.KindDemonstration
	})}
}

func (b *Builder) failed(err error) error {
	return exit.With(exit.Environment, fmt.Errorf("builder %s: %w", b.Name, err))
}

// result is a builder's output for a group.
type result = host.Result

// receive receives the results for g, which must be the next group in the order in which groups were sent.
func (b *Builder) receive(ctx context.Context, g *ttc.Group) (*result, error) {
	res, err := b.session.Recv(ctx)
	if err != nil {
		return nil, b.failed(err)
	}
	if res.Group != g {
		return nil, b.failed(fmt.Errorf("expected results for group %q, got results for %q", g.Key, res.Group.Key))
	}
	return &res, nil
}

// log puts a builder's results into the group's frame. Each candidate that no record uses is dropped once, with a
// reason. If the group lacks candidates, or the builder works on whole examples, unused examples are dropped instead.
// index is the builder's index. first is the index, in the frame's group, of the first example in res.Group.
func (b *Builder) log(f *recordlog.Builder, index, first int, res *result, keep *keeping) {
	for _, d := range res.Drops {
		if d.N() < 0 || d.N() > maxDropCount {
			res.Reason, res.Err = builders.BuilderFailed, fmt.Errorf("invalid drop count %d", d.N())
		}
	}
	b.limit(res)
	g := res.Group
	a := newAccount(g, stage.UnitCandidate)
	if a.total == 0 {
		a = newAccount(g, stage.UnitExample)
	}
	if res.Reason != "" {
		b.dropGroup(f, a, res.Reason, res.Err)
		return
	}
	if a.take(res); a.unit == stage.UnitCandidate && a.used+a.dropped == 0 && len(res.Records)+len(res.Drops) > 0 {
		if b.picks && !usesWholeExamples(res) {
			b.dropCandidates(f, g, res.Drops)
		}
		a = newAccount(g, stage.UnitExample) // the builder worked on whole examples
		a.take(res)
	}
	a.total -= a.countElsewhere(res.Drops)
	left := a.total - a.used - a.dropped
	if left < 0 {
		b.dropGroup(f, a, builders.BuilderFailed,
			fmt.Errorf("used %d and dropped %d of %s", a.used, a.dropped, ledger.Quantity(a.total, a.unit)))
		return
	}
	f.Account(ledger.Build, a.unit, a.total, a.used)
	b.logDrops(f, a, res.Drops, left)
	b.logRecords(f, index, first, res, keep)
	for _, c := range res.Counts {
		f.Count(index, c.Name, c.N)
	}
}

// logDrops logs the builder's drops. It then drops the remaining units of the account, which the builder neither used
// nor dropped; left is the number of these units.
func (b *Builder) logDrops(f *recordlog.Builder, a *account, drops []ledger.Drop, left int64) {
	for _, d := range drops {
		if d.Unit != a.unit && d.Unit != stage.UnitPair {
			f.Account(ledger.Build, d.Unit, d.N(), 0)
		}
		f.Drop(d)
	}
	if left > 0 {
		f.Drop(b.place(a.group, 0, ledger.Drop{Reason: a.whyUnused(), Unit: a.unit, Count: left}))
	}
}

// keeping decides which records in a group are used.
type keeping struct {
	where.Filter[*where.Subject]
	subject where.Subject
}

// logRecords logs the records that the builder produced. A record is dropped if dataset.where excludes it, or if it
// refers to something that its group doesn't contain.
func (b *Builder) logRecords(f *recordlog.Builder, index, first int, res *result, keep *keeping) {
	found := evidence{rules: b.rules, group: res.Group}
	for _, r := range res.Records {
		head := *r.Header()
		found.addTo(r)
		rebase(r, first)
		if d, ok := r.(*builders.Distillation); ok {
			f.Account(ledger.Build, stage.UnitSite, int64(len(d.Sites)), int64(len(d.Sites)))
		}
		why := ledger.Drop{Unit: stage.UnitRecord, Turn: head.Turn}
		if within := head.Example >= 0 && head.Example < len(res.Group.Examples); within {
			keep.subject.Example, keep.subject.Builder = res.Group.Examples[head.Example], b.Name
			keep.subject.Record = r
			why.Detail = keep.FirstFailing(&keep.subject)
		}
		if why.Detail != "" {
			why.Reason = where.NotMet
		} else if err := f.Record(index, r); err != nil {
			why.Reason, why.Detail = builders.BadReference, err.Error()
		}
		if why.Reason != "" {
			f.Account(ledger.Build, stage.UnitRecord, 1, 0)
			f.Drop(b.place(res.Group, head.Example, why))
		}
	}
}

// maxNames is the maximum number of kinds of drops, and of counters, that a run distinguishes per builder.
const maxNames = 1000

// recordNames adds the kinds of the builder's drops and its counters' names in a logged group to b.kinds and b.names.
func (b *Builder) recordNames(g *recordlog.Group) {
	if b.kinds == nil {
		b.kinds, b.names = map[stage.DropKind]bool{}, map[string]bool{}
	}
	for i := range g.Drops {
		if d := &g.Drops[i]; d.Builder == b.Name {
			b.kinds[stage.KindOf(d)] = true
		}
	}
	for _, c := range g.Counts {
		if c.Builder == b.Name {
			b.names[c.Name] = true
		}
	}
}

// limit renames new drop reasons and counters in a result once the builder has used maxNames of them.
func (b *Builder) limit(res *result) {
	kinds, names := map[stage.DropKind]bool{}, map[string]bool{}
	for i := range res.Drops {
		d := &res.Drops[i]
		if admits(b, b.kinds, kinds, stage.KindOf(d)) {
			continue
		}
		d.Detail = strings.TrimSuffix(string(d.Reason)+": "+d.Detail, ": ")
		d.Reason = builders.OtherReasons
		if !slices.Contains(units, d.Unit) {
			d.Unit = "other"
		}
	}
	for i := range res.Counts {
		if c := &res.Counts[i]; !admits(b, b.names, names, c.Name) {
			c.Name = "other"
		}
	}
}

// admits reports whether a builder may use k, which is a kind of drop or a name. A builder may use maxNames different
// ones. logged contains the ones in the log, and fresh contains the new ones in the result. If k is new and admitted,
// admits adds k to fresh.
func admits[K comparable](b *Builder, logged, fresh map[K]bool, k K) bool {
	switch {
	case logged[k]:
	case fresh[k] || len(logged)+len(fresh) < maxNames:
		fresh[k] = true
	default:
		b.over = true
		return false
	}
	return true
}

// CheckNames returns an error if the builder has more reasons or counters than are counted separately. A run on one
// machine counts the first maxNames separately, but which ones are first depends on the groups in all earlier shards.
func (b *Builder) CheckNames() error {
	if !b.over && len(b.kinds) <= maxNames && len(b.names) <= maxNames {
		return nil
	}
	return exit.Failedf("builder %s has more than %d reasons or counters, which shards can't count "+
		"separately: run it on one machine", b.Name, maxNames)
}

// maxDropCount is the largest count allowed for a drop. It keeps the sums in the books from overflowing.
const maxDropCount = 1 << 40

// dropCandidates drops all candidates of a group, because the builder's output doesn't mention any. Candidates of an
// example that was dropped as a whole get the same reason; the others get NotUsed.
func (b *Builder) dropCandidates(f *recordlog.Builder, g *ttc.Group, drops []ledger.Drop) {
	for i, ex := range g.Examples {
		n := int64(len(ex.Candidates))
		if n == 0 {
			continue
		}
		d := ledger.Drop{Reason: builders.NotUsed, Unit: stage.UnitCandidate, Count: n}
		for _, whole := range drops {
			if whole.Unit == stage.UnitExample && whole.Example == ex.ID && whole.Run == ex.Run {
				d.Reason, d.Detail = whole.Reason, whole.Detail
			}
		}
		f.Account(ledger.Build, stage.UnitCandidate, n, 0)
		f.Drop(b.place(g, i, d))
	}
}

// usesWholeExamples reports whether a builder's output for a group shows that it doesn't work on candidates. Either all
// its records are built from the examples' own messages, or it built no records and dropped only sites and rollouts.
func usesWholeExamples(res *result) bool {
	for _, r := range res.Records {
		if !slices.ContainsFunc(builders.Contents(r),
			func(c *builders.Content) bool { return c.Ref.Part == builders.NodeSpan }) {
			return false
		}
	}
	return !slices.ContainsFunc(res.Drops, func(d ledger.Drop) bool {
		return len(res.Records) == 0 && d.Unit != stage.UnitSite && d.Unit != stage.UnitRollout
	})
}

// dropGroup drops everything in a group for this builder, unless the group is empty.
func (b *Builder) dropGroup(f *recordlog.Builder, a *account, reason ledger.Reason, why error) {
	if a.total == 0 {
		return
	}
	f.Account(ledger.Build, a.unit, a.total, 0)
	line, _, _ := strings.Cut(why.Error(), "\n")
	f.Drop(b.place(a.group, 0, ledger.Drop{Reason: reason, Unit: a.unit, Detail: line, Count: a.total}))
}

func (b *Builder) place(g *ttc.Group, example int, d ledger.Drop) ledger.Drop {
	d.Stage, d.Builder = ledger.Build, b.Name
	if example >= 0 && example < len(g.Examples) {
		return stage.DropOf(g.Examples[example], d)
	}
	d.Index = -1
	return d
}

// units lists the units that limit doesn't change when it renames a drop's reason.
var units = []string{
	stage.UnitCandidate, stage.UnitExample, stage.UnitSite, stage.UnitRollout, stage.UnitTurn, stage.UnitPair,
	stage.UnitRecord,
}

// account is a builder's account for one group.
type account struct {
	group                *ttc.Group
	unit                 string
	total, used, dropped int64
	// whether each unit was used, indexed by example and candidate; if the unit is the example, the second index is 0
	seen [][]bool
}

// newAccount returns an account in candidates or, for builders that work on whole examples, in examples.
func newAccount(g *ttc.Group, unit string) *account {
	a := &account{group: g, unit: unit, seen: make([][]bool, len(g.Examples))}
	for i, ex := range g.Examples {
		n := 1
		if unit == stage.UnitCandidate {
			n = len(ex.Candidates)
		}
		a.total += int64(n)
		a.seen[i] = make([]bool, n)
	}
	return a
}

// take counts the uses and drops in a builder's result.
func (a *account) take(res *result) {
	for _, r := range res.Records {
		a.use(r)
	}
	for _, d := range res.Drops {
		if d.Unit == a.unit {
			a.dropped += d.N()
		}
	}
}

// use marks a record's sources.
func (a *account) use(r builders.Record) {
	if a.unit == stage.UnitExample {
		a.mark(r.Header().Example, 0)
		// A rejected answer that refers to a span of nodes is from another rollout.
		if p, ok := r.(*builders.Preference); ok && p.Rejected.Ref.Part == builders.NodeSpan {
			a.mark(p.Rejected.Ref.Example, 0)
		}
		return
	}
	switch r := r.(type) {
	case *builders.Preference:
		a.useCandidate(r.Example, &r.Chosen)
		a.useCandidate(r.Example, &r.Rejected)
	case *builders.Demonstration:
		a.useCandidate(r.Example, &r.Messages)
	}
}

// useCandidate marks the candidate that the content refers to, or whose output it repeats.
func (a *account) useCandidate(example int, c *builders.Content) {
	switch {
	case c.Ref.Part == builders.CandidateOutput:
		a.mark(c.Ref.Example, c.Ref.Candidate)
	case example >= 0 && example < len(a.group.Examples):
		text := c.Text
		if n := len(c.Messages); n > 0 {
			text = c.Messages[n-1].Text
		}
		candidates := a.group.Examples[example].Candidates
		for i := range candidates {
			if candidates[i].Output == text && text != "" {
				a.mark(example, i)
				return
			}
		}
	}
}

func (a *account) mark(example, candidate int) {
	if example < 0 || example >= len(a.seen) || candidate < 0 || candidate >= len(a.seen[example]) ||
		a.seen[example][candidate] {
		return
	}
	a.seen[example][candidate] = true
	a.used++
}

// whyUnused returns the reason for dropping the units that a builder neither used nor dropped itself.
func (a *account) whyUnused() ledger.Reason {
	for _, ex := range a.group.Examples {
		if len(ex.Candidates)+len(ex.Graph.Nodes)+len(ex.Steps) > 0 {
			return builders.NotUsed
		}
	}
	return builders.NoCandidates
}

// countElsewhere counts the unused examples for which the builder dropped rollouts or sites instead of the whole
// example.
func (a *account) countElsewhere(drops []ledger.Drop) (n int64) {
	if a.unit != stage.UnitExample {
		return 0
	}
	reported, whole := map[string]bool{}, map[string]bool{}
	for _, d := range drops {
		switch d.Unit {
		case stage.UnitExample:
			whole[d.Example] = true
		case stage.UnitSite, stage.UnitRollout:
			reported[d.Example] = true
		}
	}
	for i, ex := range a.group.Examples {
		if !a.seen[i][0] && reported[ex.ID] && !whole[ex.ID] {
			n++
		}
	}
	return n
}

// evidence finds the rule, if any, that scored an example in a group, and the message that the rule matched.
type evidence struct {
	rules *readers.ScoreRules // nil if the run doesn't have score rules
	group *ttc.Group          // the group that was sent to the builder
	found map[int]json.Raw
}

// addTo adds the evidence to a record's metadata.
func (e *evidence) addTo(r builders.Record) {
	if e.rules == nil {
		return
	}
	h := r.Header()
	add := func(key string, example int) {
		if raw := e.forExample(example); raw != nil {
			h.Metadata = withMember(h.Metadata, key, raw)
		}
	}
	if p, ok := r.(*builders.Preference); ok && p.Chosen.Ref.Part == builders.NodeSpan &&
		p.Rejected.Ref.Part == builders.NodeSpan && p.Chosen.Ref.Example != p.Rejected.Ref.Example {
		add("chosen_scored_by", p.Chosen.Ref.Example)
		add("rejected_scored_by", p.Rejected.Ref.Example)
		return
	}
	add("scored_by", h.Example)
}

// forExample returns the evidence for an example, or nil if its score didn't come from a rule.
func (e *evidence) forExample(example int) json.Raw {
	if raw, ok := e.found[example]; ok || example < 0 || example >= len(e.group.Examples) {
		return raw
	}
	if e.found == nil {
		e.found = map[int]json.Raw{}
	}
	e.found[example] = nil
	ex := e.group.Examples[example]
	x, ok := e.rules.Of(ex)
	if !ok || ex.Reward == nil || *ex.Reward != x.Score { // the score didn't come from the rules
		return nil
	}
	b := json.AppendString([]byte(`{"rule":`), x.Rule)
	b = fmt.Appendf(b, `,"score":%v,"message":%d,"tool":`, x.Score, x.Message)
	b = json.AppendString(b, x.Tool)
	b = json.AppendString(append(b, `,"quote":`...), x.Quote)
	e.found[example] = append(b, '}')
	return e.found[example]
}

// withMember returns the object with a member added; nil counts as an empty object. An object that already has the key,
// or any value that isn't an object, is returned unchanged.
func withMember(object json.Raw, key string, value json.Raw) json.Raw {
	out := json.Raw("{")
	if object != nil {
		if _, has := object.Get(key); has || object.Kind() != json.Object {
			return object
		}
		out = append(json.Raw(nil), object[:len(object)-1]...)
		for range object.Members() {
			out = append(out, ',')
			break
		}
	}
	out = json.AppendString(out, key)
	return append(append(append(out, ':'), value...), '}')
}

// Direct runs a built-in builder in this process, so that a server can answer a waiting client. It counts used and
// dropped examples in the same way as a run.
type Direct struct {
	Builder
	made builders.Builder
}

// NewDirect returns a Direct with the given name, whose Build method calls made.Build.
func NewDirect(name string, info builders.Info, made builders.Builder) *Direct {
	return &Direct{newBuilder(name, info.Unit, info.Kinds), made}
}

// Build calls the builder for a group, and puts the results into the group's frame under the builder's index. If the
// builder fails, the part of the group that it was given is dropped.
func (d *Direct) Build(ctx context.Context, f *recordlog.Builder, index int, g *ttc.Group) error {
	it := item{group: g}
	first := 0
	for _, part := range it.partsFor(&d.Builder, builders.UnitTask) {
		out := &gathered{result: result{Group: part}}
		if err := d.made.Build(ctx, part, out); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			out.result = result{Group: part, Reason: builders.BuilderFailed, Err: err}
		}
		for i := range out.Drops {
			out.Drops[i].Stage, out.Drops[i].Builder = ledger.Build, d.Name
		}
		d.log(f, index, first, &out.result, new(keeping))
		first += len(part.Examples)
	}
	return nil
}

// gathered collects a builder's output.
type gathered struct{ result }

func (g *gathered) Record(r builders.Record) error {
	own := reflect.New(reflect.TypeOf(r).Elem()) // make a copy, because a builder may reuse the record
	own.Elem().Set(reflect.ValueOf(r).Elem())
	g.Records = append(g.Records, own.Interface().(builders.Record))
	return nil
}

func (g *gathered) Drop(d ledger.Drop) error {
	g.Drops = append(g.Drops, d)
	return nil
}

func (g *gathered) Count(name string, n int64) error {
	g.Counts = append(g.Counts, host.Count{Name: name, N: n})
	return nil
}

// item is a group for the builders, drops without a group, or the end of a collection run. A group comes with the
// source's drops that precede it.
type item struct {
	position
	group *ttc.Group
	parts []*ttc.Group // one group per example, for builders that work on examples
	end   bool
	fail  error // error of a collection run that failed, if end is set
}

// position is a feeder's progress.
type position struct {
	at    source.Cursor
	drops []ledger.Drop // drops since the last item
	// Set if the run's unit is larger than an example:
	done  int64        // number of groups up to and including the last group sent
	first shards.Place // position of that group's first example
	// Set at the end of a collection run:
	input source.Input
	seen  source.Stats
}

// partsFor divides the group for a builder. It returns the whole group if the builder and the run have the same unit,
// and one group per example otherwise.
func (it *item) partsFor(b *Builder, unit builders.Unit) []*ttc.Group {
	if len(it.group.Examples) <= 1 || b.Unit != builders.UnitExample && b.Unit == unit {
		return []*ttc.Group{it.group}
	}
	if it.parts == nil {
		for _, ex := range it.group.Examples {
			it.parts = append(it.parts, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		}
	}
	return it.parts
}

// receiveResults receives every builder's results for a group, part by part.
func (it *item) receiveResults(ctx context.Context, from []*Builder, unit builders.Unit) ([][]*result, error) {
	if len(it.group.Examples) == 0 {
		return nil, nil
	}
	results := make([][]*result, len(from))
	for i, x := range from {
		for _, g := range it.partsFor(x, unit) {
			res, err := x.receive(ctx, g)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], res)
		}
	}
	return results, nil
}

// rebase makes a record's references to a part of a group refer to the whole group. The part begins at example first.
func rebase(r builders.Record, first int) {
	r.Header().Example += first
	for _, c := range builders.Contents(r) {
		if c.Ref.Part != builders.InlineText && c.Ref.Part != builders.InlineMessages {
			c.Ref.Example += first
		}
	}
}
