package dataset

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/collator/batch"
	"github.com/nat-go/nat-go/collator/rows"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/internal/extsort"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Stats describes the kept records of a data set or, without a record log, the rows in one format.
type Stats struct {
	Of       string      `json:"of"` // "records", or the format whose rows were read
	Kinds    []kindCount `json:"kinds"`
	Examples int64       `json:"examples"` // number of distinct examples; 0 means unknown
	Prompts  int64       `json:"prompts"`  // number of distinct prompts
	Pairs    *pairStats  `json:"pairs,omitempty"`
	Lengths  []spread    `json:"lengths"` // lengths in characters, summed over messages
	// effects of the hints at sites, in nats; empty unless collator.teacher measured them
	Effects    []spread `json:"hint_effects,omitempty"`
	Duplicates int64    `json:"duplicates"`
	Leakage    leakage  `json:"leakage"`
	// Contexts counts the trained turns by how their contexts changed; nil means that none are known.
	Contexts *runfolder.Contexts `json:"contexts,omitempty"`
	Batches  *runfolder.Batches  `json:"batches,omitempty"` // the run's token batches
	Dropped  []dropCount         `json:"dropped,omitempty"`
	Template *templated          `json:"template,omitempty"` // content that the template omits; nil without a template
}

// kindCount counts the kept records, or rows, of one kind on each side of the split.
type kindCount struct {
	Kind       string `json:"kind"`
	Train      int64  `json:"train"`
	Validation int64  `json:"validation"`
}

// pairStats describes the preferences.
type pairStats struct {
	Margins      []spread `json:"margins"`       // |chosen - rejected| for each named score; empty for rows
	PerTurn      spread   `json:"per_turn"`      // pairs per turn or, for rows, per prompt
	ChosenLonger float64  `json:"chosen_longer"` // share of pairs whose chosen answer is longer, 0..1
	SameLength   float64  `json:"same_length"`   // share of pairs with equal lengths
	MeanGap      float64  `json:"mean_gap"`      // mean of chosen minus rejected length, in characters
	Contradict   int64    `json:"contradictions"`
}

// leakage counts content that occurs on both sides of the split.
type leakage struct {
	Prompts  int64 `json:"prompts"`
	Records  int64 `json:"records"`
	Examples int64 `json:"examples"`
}

// spread is the distribution of a number, by nearest-rank quantiles.
type spread struct {
	Name   string  `json:"name"`
	Count  int64   `json:"count"`
	Min    float64 `json:"min"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	Max    float64 `json:"max"`
	Mean   float64 `json:"mean"`

	// number of NaN and infinite values, which are excluded from all of the above
	NonFinite int64 `json:"non_finite,omitempty"`
}

// scale is a factor for values that prevents their sum from overflowing.
const scale = 0x1p-64

// dropCount counts the drops in dropped.jsonl with the same stage, reason, unit and format.
type dropCount struct {
	Stage  ledger.Stage  `json:"stage"`
	Reason ledger.Reason `json:"reason"`
	Unit   string        `json:"unit"`
	Format string        `json:"format,omitempty"`
	Count  int64         `json:"count"`
}

// measure returns statistics on a log's kept records. They include the hints' effects listed in the token batches'
// index, if it exists, and counts of the content that the template omits, unless render is nil.
func measure(log string, d *curate.Decisions, index string, render *turns.Renderer, tmp string) (*Stats, error) {
	m := newMeter(render, tmp)
	defer m.close()
	if err := m.effects(index); err != nil {
		return nil, err
	}
	perTurn := map[turnKey]int64{}
	for g, err := range recordlog.GroupsAhead(log) {
		if err != nil {
			return nil, err
		}
		clear(perTurn)
		for i := range g.Records {
			at := d.At(g.First + uint64(i))
			if !at.Kept() {
				continue
			}
			r := &g.Records[i]
			if err := m.record(r, at); err != nil {
				return nil, err
			}
			m.turns(g.Contexts(i, m.scratch[:0]), r)
			if r.Record.Kind() == builders.KindPreference {
				perTurn[turnKey{r.Origin, r.Record.Header().Turn}]++
			}
		}
		for _, n := range perTurn {
			if err := m.sample("pairs a turn", float64(n)); err != nil {
				return nil, err
			}
		}
	}
	return m.stats("records")
}

// effects samples the hint effects listed in the index of the token batches.
func (m *meter) effects(index string) error {
	err := batch.EachLine(index, func(l *batch.Line) error {
		for i := range l.Sites {
			e := l.Sites[i].Effect
			if e == nil {
				continue
			}
			const jsd = "effect on the predictions (JSD)"
			var err error
			if e.Upper == e.Lower {
				err = m.sample(jsd, e.Lower)
			} else {
				err = cmp.Or(m.sample(jsd+", lower bound", e.Lower), m.sample(jsd+", upper bound", e.Upper))
			}
			if err := cmp.Or(err, m.sample("effect on the target's log-prob", e.Target)); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type turnKey struct {
	origin *builders.Origin
	turn   string
}

// MeasureRows returns statistics on the rows in a format. If render isn't nil, they include counts of the content that
// its template omits. MeasureRows ignores rows that can't be read, because Verify reports those.
func MeasureRows(f FormatFolder, render *turns.Renderer, tmp string) (*Stats, error) {
	m := newMeter(render, tmp)
	defer m.close()
	splits := map[string]rows.Split{}
	for _, file := range f.Files {
		splits[file.Name] = file.Split
		err := file.each(func(_ int64, line []byte) error {
			row, err := f.Format.Read(line)
			if err != nil {
				return nil
			}
			return m.row(row, file.Split)
		})
		if err != nil {
			return nil, err
		}
	}
	if f.Origins != "" {
		err := ReadOrigins(f.Origins, func(o Origin) error {
			m.contexts.Turns += int64(len(o.Contexts))
			for _, c := range o.Changed {
				m.contexts.Change(c.By, 1)
			}
			return m.index.example(o.Run, o.Example, occurrence{split: splits[o.File]})
		})
		if err != nil {
			return nil, err
		}
	}
	return m.stats(f.Format.Name)
}

// meter processes a data set record by record, in constant memory, because the hashes to be compared are sorted, on
// disk if there are many.
type meter struct {
	kinds     [8][2]int64 // counts by kind and split
	longer    int64
	same      int64
	gap       int64
	pairs     int64
	samples   *extsort.Sorter // each row holds a metric (2 bytes) and a value (8 bytes)
	metrics   []metric
	index     index
	sampleRow [10]byte
	against   *templateTrial // renders the rows with a template; nil means that none was given
	contexts  runfolder.Contexts
	scratch   []ttc.History
}

// metric is a metric with the spread of its values.
type metric struct {
	spread         // until spreads is called, only Name and NonFinite are set
	total  int64   // number of finite values
	scaled float64 // sum of the values so far, times scale
}

// turns counts a record's trained turns.
func (m *meter) turns(contexts []ttc.History, r *builders.Resolved) {
	m.scratch = contexts
	prompt := 0
	if k := r.Record.Kind(); k == builders.KindState || k == builders.KindRollout && len(contexts) > 0 {
		prompt = 1 // skip the first context, which belongs to the prompt
	}
	m.contexts.Turns += int64(len(contexts) - prompt)
	for _, c := range r.Changes {
		if c.Turn >= prompt {
			m.contexts.Change(c.By.String(), 1)
		}
	}
}

func newMeter(render *turns.Renderer, tmp string) *meter {
	m := &meter{samples: extsort.New(10, 0, tmp), index: newIndex(tmp)}
	if render != nil {
		m.against = &templateTrial{render: render}
	}
	return m
}

func (m *meter) close() {
	m.samples.Close()
	m.index.close()
}

// record processes a kept record from the log.
func (m *meter) record(r *builders.Resolved, d curate.Decision) error {
	row := &rows.Row{
		Kind: r.Record.Kind(), Prompt: r.Prompt, Chosen: r.Chosen, Rejected: r.Rejected, Completion: r.Messages,
		Tools: r.Origin.Tools,
	}
	for _, s := range []rows.Split{rows.Train, rows.Validation} {
		if s == rows.Train && !d.Trains() || s == rows.Validation && !d.Validates() {
			continue
		}
		at := occurrence{split: s}
		if err := cmp.Or(m.row(row, s), m.index.example(r.Origin.Run, r.Origin.Example, at)); err != nil {
			return err
		}
	}
	if p, ok := r.Record.(*builders.Preference); ok {
		return m.sample("margin "+p.ScoreName, math.Abs(p.ChosenScore-p.RejectedScore))
	}
	return nil
}

// row processes a row. For a record without a separate prompt, Completion is the whole conversation.
func (m *meter) row(row *rows.Row, s rows.Split) error {
	m.kinds[row.Kind][s]++
	if m.against != nil {
		m.against.row(row)
	}
	at := occurrence{split: s}
	if row.Kind != builders.KindPreference || row.Label != nil {
		return m.conversation(row, at)
	}
	err := m.index.row(row, row.Prompt, at)
	key, direction := m.index.hash.pair(row)
	at.side = direction
	chosen, rejected := length(row.Chosen), length(row.Rejected)
	m.pairs++
	m.gap += chosen - rejected
	switch {
	case chosen > rejected:
		m.longer++
	case chosen == rejected:
		m.same++
	}
	return cmp.Or(err, m.index.pairs.add(key, at), m.sample("length prompt", float64(length(row.Prompt))),
		m.sample("length chosen", float64(chosen)), m.sample("length rejected", float64(rejected)))
}

func (m *meter) conversation(row *rows.Row, at occurrence) error {
	prompt := row.Prompt
	if prompt.IsText() && prompt.Text == "" {
		prompt = opening(row.Completion)
	}
	at.side = 1 // side 0 is for the prompts of pairs
	return cmp.Or(m.index.row(row, prompt, at),
		m.sample("length "+row.Kind.String(), float64(length(row.Prompt)+length(row.Completion))))
}

// opening returns the messages before the first assistant message.
func opening(p builders.Passage) builders.Passage {
	for i := range p.Nodes {
		if p.Nodes[i].Message.Role == "assistant" {
			return builders.Passage{Nodes: p.Nodes[:i:i]}
		}
	}
	return p
}

// length counts the characters in text, reasoning, and the names and arguments of calls.
func length(p builders.Passage) (n int64) {
	if p.IsText() {
		return int64(utf8.RuneCountInString(p.Text))
	}
	for i := range p.Nodes {
		n += messageLength(&p.Nodes[i].Message)
	}
	return n
}

func messageLength(m *chat.Message) int64 {
	n := utf8.RuneCountInString(m.Text) + utf8.RuneCountInString(m.Reasoning)
	for _, p := range m.Parts {
		n += utf8.RuneCountInString(p.Text)
	}
	for i := range m.ToolCalls {
		n += utf8.RuneCountInString(m.ToolCalls[i].Name) + utf8.RuneCountInString(m.ToolCalls[i].Arguments)
	}
	return int64(n)
}

// maxMetrics is the maximum number of metrics. The metrics are a margin for each score name, and a few others.
const maxMetrics = 1000

// sample adds a value of a metric.
func (m *meter) sample(name string, x float64) error {
	i := slices.IndexFunc(m.metrics, func(x metric) bool { return x.Name == name })
	if i < 0 {
		if i = len(m.metrics); i == maxMetrics {
			return fmt.Errorf("more than %d score names", maxMetrics)
		}
		m.metrics = append(m.metrics, metric{spread: spread{Name: name}})
	}
	if math.IsNaN(x) || math.IsInf(x, 0) { // records with such scores are kept only with --compat nat
		m.metrics[i].NonFinite++
		return nil
	}
	m.metrics[i].total++
	bits := math.Float64bits(x) // changed below to sort like the numbers
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	binary.BigEndian.PutUint16(m.sampleRow[:], uint16(i))
	binary.BigEndian.PutUint64(m.sampleRow[2:], bits)
	return m.samples.Add(m.sampleRow[:])
}

func (m *meter) stats(of string) (*Stats, error) {
	s := &Stats{Of: of, Kinds: []kindCount{}, Lengths: []spread{}}
	if m.against != nil {
		s.Template = &m.against.counts
	}
	if m.contexts.Turns > 0 {
		s.Contexts = &m.contexts
	}
	for k, n := range m.kinds {
		if n[0]+n[1] > 0 {
			s.Kinds = append(s.Kinds, kindCount{builders.Kind(k).String(), n[rows.Train], n[rows.Validation]})
		}
	}
	both := func(g *shared, n *int64) {
		if g.onBoth() {
			*n++
		}
	}
	perPrompt := of != "records"
	var failed error
	prompts := m.index.prompts.each(func(g *shared) {
		s.Prompts++
		both(g, &s.Leakage.Prompts)
		if n := g.bySide(0); perPrompt && n > 0 && failed == nil {
			failed = m.sample("pairs a prompt", float64(n))
		}
	})
	same := m.index.rows.each(func(g *shared) {
		s.Duplicates += max(0, g.bySplit(rows.Train)-1) + max(0, g.bySplit(rows.Validation)-1)
		both(g, &s.Leakage.Records)
	})
	examples := m.index.examples.each(func(g *shared) {
		s.Examples++
		both(g, &s.Leakage.Examples)
	})
	if m.pairs > 0 {
		s.Pairs = &pairStats{
			Margins:      []spread{},
			ChosenLonger: float64(m.longer) / float64(m.pairs),
			SameLength:   float64(m.same) / float64(m.pairs),
			MeanGap:      float64(m.gap) / float64(m.pairs),
		}
	}
	pairs := m.index.pairs.each(func(g *shared) {
		if g.bySide(0) > 0 && g.bySide(1) > 0 {
			s.Pairs.Contradict++
		}
	})
	return s, cmp.Or(prompts, failed, same, examples, pairs, m.spreads(s))
}

// spreads reads the samples back in order and stores the spread of each metric in s.
func (m *meter) spreads(s *Stats) error {
	for row, err := range m.samples.All() {
		if err != nil {
			return err
		}
		m.metrics[binary.BigEndian.Uint16(row)].take(orderedFloat(binary.BigEndian.Uint64(row[2:])))
	}
	for _, x := range m.metrics {
		if x.Mean /= float64(max(1, x.Count)); math.IsInf(x.Mean, 0) || math.IsNaN(x.Mean) {
			x.Mean = x.scaled / float64(x.Count) / scale
		}
		kind, rest, _ := strings.Cut(x.Name, " ")
		x.Name = rest
		switch kind {
		case "margin":
			s.Pairs.Margins = append(s.Pairs.Margins, x.spread)
		case "pairs":
			s.Pairs.PerTurn = x.spread
		case "effect":
			s.Effects = append(s.Effects, x.spread)
		default:
			s.Lengths = append(s.Lengths, x.spread)
		}
	}
	if s.Pairs != nil {
		slices.SortFunc(s.Pairs.Margins, func(a, b spread) int { return strings.Compare(a.Name, b.Name) })
	}
	return nil
}

func orderedFloat(bits uint64) float64 {
	if bits>>63 == 1 {
		return math.Float64frombits(bits &^ (1 << 63))
	}
	return math.Float64frombits(^bits)
}

// take adds the next value; the values come in ascending order.
func (s *metric) take(x float64) {
	at := func(q float64) bool { return s.Count == max(0, int64(math.Ceil(q*float64(s.total)))-1) }
	if s.Count == 0 {
		s.Min = x
	}
	if at(0.1) {
		s.P10 = x
	}
	if at(0.5) {
		s.Median = x
	}
	if at(0.9) {
		s.P90 = x
	}
	s.Max = x
	s.Mean += x
	s.scaled += x * scale
	s.Count++
}

// maxDropKinds is the maximum number of distinct drops that readDrops counts. A builder reports at most a thousand
// reasons.
const maxDropKinds = 1 << 16

// readDrops counts the drops in a dropped.jsonl by stage, reason, unit and format, in order of first occurrence. It
// returns nil if the file doesn't exist.
func readDrops(path string) ([]dropCount, error) {
	if !runfolder.Has(path) {
		return nil, nil
	}
	var out []dropCount
	index := map[dropCount]int{}
	err := eachObject(path, func(d ledger.Drop) error {
		k := dropCount{Stage: d.Stage, Reason: d.Reason, Unit: d.Unit, Format: d.Format}
		i, ok := index[k]
		if !ok {
			if i = len(out); i == maxDropKinds {
				return fmt.Errorf("%s: more than %d reasons", path, maxDropKinds)
			}
			index[k] = i
			out = append(out, k)
		}
		out[i].Count += d.N()
		return nil
	})
	return out, err
}
