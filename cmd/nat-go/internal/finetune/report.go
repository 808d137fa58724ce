package finetune

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/shards"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// report collects the results of a run's stages in the summary, the manifest and the books, and passes on progress.
type report struct {
	env     Env
	books   *books
	where   runFilter
	history *compat.History     // NAT's report of the run
	made    *runfolder.Manifest // the manifest so far
	sum     *Summary
	known   []runfolder.File // files whose hashes were computed while they were written
}

func newReport(p *plan, env Env) *report {
	return &report{
		env: env, books: newBooks(env.hide), where: p.where,
		history: compat.NewHistory(p.Compat, p.RunID, pairsOf(p), env.Now),
		made: &runfolder.Manifest{
			NatGo: Version(), Log: recordlog.Version, RunID: p.RunID, Compat: p.Compat == compat.NAT, Rows: p.options,
			Counts: noCounts(),
		},
		sum: &Summary{
			RunID: p.RunID, Status: runfolder.Failed, Chosen: p.chosen, Counts: noCounts(), Also: p.also,
			NotStarted: !p.resume,
		},
	}
}

// info logs a step of the run, with details given as alternating names and values.
func (r *report) info(what string, fields ...any) {
	r.env.Log.Info().Str("run", r.made.RunID).Fields(fields).Msg(what)
}

func (r *report) warn(format string, a ...any) {
	r.sum.Warnings = append(r.sum.Warnings, r.env.hide(fmt.Sprintf(format, a...)))
}

// tell passes the run's progress to the caller.
func (r *report) tell(p Progress) {
	if r.env.Progress != nil {
		r.env.Progress(p)
	}
}

// count updates the counts in the summary and, until the run has a status, in the manifest.
func (r *report) count() {
	m := r.made
	if m.Status == "" { // the counts may still change
		c := &m.Counts
		c.Examples = r.books.Account(ledger.Source, unitExample).In
		c.Records = r.books.Account(ledger.Gate, unitRecord).In
		c.Kept = r.books.Account(ledger.Curate, unitRecord).Out
		c.Dropped = r.books.DroppedByReason()
		m.Books, m.Counters = r.books.Accounts(), r.books.counters
		examples, records := r.where.Split(where.ExampleFields)
		m.Where = append(
			examples.Funnel(unitExample, r.books.Account(ledger.Source, unitExample).Out, r.books.unmet),
			records.Funnel(unitRecord, c.Records, r.books.unmet)...)
	}
	r.sum.Counts, r.sum.Where, r.sum.Accounts, r.sum.Batches = m.Counts, m.Where, m.Books, m.Batches
	r.sum.Contamination = m.Overlaps
	r.sum.Sites, r.sum.Labels = sumCounters(m.Counters, "sites/"), sumCounters(m.Counters, "labels/")
	r.sum.Written = nil
	for _, w := range m.Dataset {
		for _, f := range w.Files {
			r.sum.Written = append(r.sum.Written, writtenFile{Path: f.Path, Rows: f.Rows})
		}
	}
}

// sumCounters sums the builders' counters whose names start with prefix, such as sites/CLASS/SOURCE/KIND or
// labels/LABEL. The sums are keyed by the rest of the name.
func sumCounters(counters map[string]map[string]int64, prefix string) map[string]int64 {
	sums := map[string]int64{}
	for _, of := range counters {
		for name, n := range of {
			if key, ok := strings.CutPrefix(name, prefix); ok {
				sums[key] += n
			}
		}
	}
	return sums
}

// know records files whose hashes were computed while they were written.
func (r *report) know(_ []runfolder.Written, files []runfolder.File) error {
	r.known = append(r.known, files...)
	return nil
}

// knowLog records the hash of the record log, which was computed as it was written. It returns the log's last commit.
func (r *report) knowLog(folder runfolder.Folder) (recordlog.Commit, error) {
	c, err := recordlog.ReadCommit(folder.Records())
	if err == nil && c.XXH3 != "" {
		path := folder.Rel(filepath.Join(folder.Records(), recordlog.LogName))
		r.known = append(r.known, runfolder.File{Path: path, Bytes: c.Bytes, XXH3: c.XXH3})
	}
	return c, exit.Default(exit.Environment, err)
}

// passOver warns about the skipped files in folders, and records them as dropped. read is the number of files that are
// read.
func (r *report) passOver(passed []inspect.PassedOver, read int) {
	if len(passed) == 0 {
		return
	}
	r.warn("%s", inspect.SayPassedOver(passed, read))
	r.books.In(ledger.Source, unitFile, int64(len(passed)))
	for _, f := range passed {
		r.books.drop(ledger.Drop{
			Stage: ledger.Source, Reason: source.NotUnderstood, Unit: unitFile, Index: -1, File: f.Path, Detail: f.Why,
		})
	}
}

// writeMetrics writes the run's counters to the --metrics file in the Prometheus text format
// (https://prometheus.io/docs/instrumenting/exposition_formats), which the Prometheus node exporter reads from files.
func (r *report) writeMetrics(path string) error {
	if path == "" {
		return nil
	}
	return cant("write the metrics", durable.WriteOutput(path, r.prometheus()))
}

func (r *report) prometheus() []byte {
	m := &metrics{run: r.made.RunID}
	m.family("natgo_run_info", "gauge", "The run and how it ended.")
	m.sample(1, "status", r.sum.Status)
	accounts := func(name, help string, count func(ledger.Account) int64) {
		m.family(name, "counter", help)
		for _, a := range r.sum.Accounts {
			m.sample(count(a), "stage", string(a.Stage), "unit", a.Unit)
		}
	}
	in, out := func(a ledger.Account) int64 { return a.In }, func(a ledger.Account) int64 { return a.Out }
	accounts("natgo_in_total", "Units that entered a stage of the run.", in)
	accounts("natgo_out_total", "Units that a stage of the run passed on.", out)
	m.family("natgo_dropped_total", "counter", "Units that a stage of the run dropped, by reason.")
	for _, a := range r.sum.Accounts {
		for _, reason := range slices.Sorted(maps.Keys(a.Dropped)) {
			m.sample(a.Dropped[reason], "stage", string(a.Stage), "unit", a.Unit, "reason", string(reason))
		}
	}
	m.family("natgo_builder_total", "counter", "Counts reported by a builder.")
	for _, b := range slices.Sorted(maps.Keys(r.books.counters)) {
		for _, name := range slices.Sorted(maps.Keys(r.books.counters[b])) {
			m.sample(r.books.counters[b][name], "builder", b, "counter", name)
		}
	}
	files := func(name, help string, count func(runfolder.RowFile) int64) {
		m.family(name, "counter", help)
		for _, w := range r.made.Dataset {
			for _, f := range w.Files {
				m.sample(count(f), "format", w.Format, "file", f.Path)
			}
		}
	}
	rows, bytes := func(f runfolder.RowFile) int64 { return f.Rows }, func(f runfolder.RowFile) int64 { return f.Bytes }
	files("natgo_rows_total", "Rows written to a file of the data set.", rows)
	files("natgo_written_bytes_total", "Bytes of a file of the data set.", bytes)
	return m.text
}

// metrics is a metrics file being written.
type metrics struct {
	run, name string
	text      []byte
}

func (m *metrics) family(name, kind, help string) {
	m.name = name
	m.text = fmt.Appendf(m.text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample appends a value with its labels, given as alternating names and values.
func (m *metrics) sample(n int64, labels ...string) {
	m.text = fmt.Appendf(m.text, `%s{run="%s"`, m.name, labelText.Replace(m.run))
	for pair := range slices.Chunk(labels, 2) {
		m.text = fmt.Appendf(m.text, `,%s="%s"`, pair[0], labelText.Replace(pair[1]))
	}
	m.text = fmt.Appendf(m.text, "} %d\n", n)
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// listedDrops is the maximum number of drops of each kind in dropped.jsonl. One more line per kind counts the rest.
const listedDrops = 10_000

// unitPair is the unit for drops of pairs that a builder didn't build. Such drops are listed, but not counted, because
// the candidates or examples in the pairs are already counted.
const unitPair = "pair"

// books holds a run's ledger.Book and the builders' own counters, and writes the list of drops to dropped.jsonl.
type books struct {
	*ledger.Book
	counters map[string]map[string]int64 // by builder

	file *durable.File
	enc  *json.Encoder
	seen map[dropKind]int64
	more map[dropKind]*ledger.Drop   // last lines of dropped.jsonl, for kinds with more than listedDrops drops
	near map[string]*sdpo.NearMisses // by builder
	err  error

	unmet map[string]int64 // number of examples or records dropped by dataset.where, by clause

	first map[ledger.Stage]string // the first drop of each stage that has details, for display

	hide func(string) string // removes secrets from listed text
}

// dropKind identifies a kind of drop. The list contains at most listedDrops drops of each kind.
type dropKind struct {
	stage  ledger.Stage
	reason ledger.Reason
	unit   string
	format string
}

func kindOf(d *ledger.Drop) dropKind { return dropKind{d.Stage, d.Reason, d.Unit, d.Format} }

func newBooks(hide func(string) string) *books {
	return &books{
		Book: ledger.NewBook(), counters: map[string]map[string]int64{}, seen: map[dropKind]int64{},
		more: map[dropKind]*ledger.Drop{}, near: map[string]*sdpo.NearMisses{}, first: map[ledger.Stage]string{},
		unmet: map[string]int64{}, hide: hide,
	}
}

// newListing returns books that are used only to write a list of drops, which other books read with replay.
func newListing(path string, hide func(string) string) (*books, error) {
	b := newBooks(hide)
	return b, b.open(path)
}

// open starts the list of drops.
func (b *books) open(path string) (err error) {
	if b.file, err = durable.Create(path); err != nil {
		return err
	}
	b.enc = json.NewEncoder(b.file)
	b.enc.SetEscapeHTML(false)
	return nil
}

// AddAccounts adds the In and Out counts of accounts to a book. Their drops are added one at a time.
func AddAccounts(b *ledger.Book, accounts []ledger.Account) {
	for _, a := range accounts {
		b.In(a.Stage, a.Unit, a.In)
		b.Out(a.Stage, a.Unit, a.Out)
	}
}

func (b *books) count(builder, name string, n int64) {
	counters := b.counters[builder]
	if counters == nil {
		counters = map[string]int64{}
		b.counters[builder] = counters
	}
	if _, known := counters[name]; !known { // all groups use the same few names, so hide is rarely called
		name = b.hide(name) // a name from a plugin may contain a secret
	}
	counters[name] += n
}

// drop records a drop and lists it.
func (b *books) drop(d ledger.Drop) {
	if d.Reason == where.NotMet && d.Unit != unitTurn { // turns are dropped by a builder's where, not dataset.where
		b.unmet[d.Detail] += d.N()
	}
	d.Reason = ledger.Reason(b.hide(string(d.Reason)))
	if d.Unit != unitPair {
		b.Drop(d)
	}
	b.list(d)
}

// list adds a drop to dropped.jsonl, but not to the accounts. The close method returns write errors.
func (b *books) list(d ledger.Drop) {
	if d.Reason == sdpo.NearMiss {
		if b.near[d.Builder] == nil {
			b.near[d.Builder] = &sdpo.NearMisses{}
		}
		b.near[d.Builder].Add(&d)
	}
	k := kindOf(&d)
	b.seen[k]++
	if b.first[d.Stage] == "" && d.Detail != "" && d.Unit != unitPair {
		b.first[d.Stage] = fmt.Sprintf(" (the first: %s, %s)", d.Reason, b.hide(d.Detail))
	}
	if b.seen[k] <= listedDrops {
		b.encode(&d)
		return
	}
	b.countUnlisted(&d)
}

// unlistedDetail is the detail text of a line that counts unlisted drops.
const unlistedDetail = "additional drops, not listed"

// countUnlisted counts a drop whose kind has reached its limit in the list.
func (b *books) countUnlisted(d *ledger.Drop) {
	k := kindOf(d)
	m := b.more[k]
	if m == nil {
		m = &ledger.Drop{
			Stage: d.Stage, Reason: d.Reason, Unit: d.Unit, Format: d.Format, Index: -1, Detail: unlistedDetail,
		}
		b.more[k] = m
	}
	m.Count += d.N()
}

// replay copies the drops from another list to this one and records them, except for drops from the stages Gate and
// Curate, which are recorded from the entries and the decisions.
func (b *books) replay(path string) error {
	in, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	for dec := json.NewDecoder(bufio.NewReader(in)); dec.More(); {
		var d ledger.Drop
		if err := dec.Decode(&d); err != nil {
			return shards.Damaged(path, err.Error())
		}
		if d.Stage != ledger.Gate && d.Stage != ledger.Curate {
			b.Drop(d)
		}
		if d.Detail == unlistedDetail {
			b.countUnlisted(&d)
		} else {
			b.list(d)
		}
	}
	return nil
}

func (b *books) encode(d *ledger.Drop) {
	d.Detail = b.hide(d.Detail)
	if err := b.enc.Encode(d); err != nil && b.err == nil {
		b.err = err
	}
}

// close completes the list of drops.
func (b *books) close() error {
	for _, d := range slices.SortedFunc(maps.Values(b.more), func(x, y *ledger.Drop) int {
		return cmp.Or(cmp.Compare(x.Stage, y.Stage), cmp.Compare(x.Reason, y.Reason), cmp.Compare(x.Unit, y.Unit),
			cmp.Compare(x.Format, y.Format))
	}) {
		b.encode(d)
	}
	if b.err != nil {
		b.abort()
		return b.err
	}
	return b.file.Commit()
}

// abort discards the list. It does nothing after close.
func (b *books) abort() {
	if b.file != nil {
		b.file.Abort()
	}
}
