package finetune

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/internal/where"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

// count updates the counts in the summary and, until the run has a status, in the manifest.
func (r *run) count() {
	m := r.made
	if m.Status == "" { // the counts may still change
		c := &m.Counts
		c.Examples = r.Of(ledger.Source, stage.UnitExample).In
		c.Records = r.Of(ledger.Gate, stage.UnitRecord).In
		c.Kept = r.Of(ledger.Curate, stage.UnitRecord).Out
		c.Dropped = r.DroppedByReason()
		m.Books, m.Counters = r.Accounts(), r.Counters
		examples, records := r.where.Split(where.ExampleFields)
		m.Where = append(
			examples.Funnel(stage.UnitExample, r.Of(ledger.Source, stage.UnitExample).Out, r.Unmet),
			records.Funnel(stage.UnitRecord, c.Records, r.Unmet)...)
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

// closeLists completes the list of drops, and records the hash of the record log, which was computed as it was written.
// It returns the log's last commit.
func (r *run) closeLists() (recordlog.Commit, error) {
	if err := r.Close(); err != nil {
		return recordlog.Commit{}, exit.Environmentf("cannot write the list of drops: %w", err)
	}
	c, err := recordlog.ReadCommit(r.folder.Records())
	if err == nil && c.XXH3 != "" {
		path := r.folder.Rel(filepath.Join(r.folder.Records(), recordlog.LogName))
		r.Files = append(r.Files, runfolder.File{Path: path, Bytes: c.Bytes, XXH3: c.XXH3})
	}
	return c, exit.Default(exit.Environment, err)
}

// passOver warns about the skipped files in folders, and records them as dropped. read is the number of files that the
// run reads.
func (r *run) passOver(passed []inspect.PassedOver, read int) {
	if len(passed) == 0 {
		return
	}
	r.Warn("%s", inspect.SayPassedOver(passed, read))
	r.In(ledger.Source, stage.UnitFile, int64(len(passed)))
	for _, f := range passed {
		r.Drop(ledger.Drop{
			Stage: ledger.Source, Reason: source.NotUnderstood, Unit: stage.UnitFile, Index: -1, File: f.Path,
			Detail: f.Why,
		})
	}
}

// writeMetrics writes the run's counters to the --metrics file in the Prometheus text format
// (https://prometheus.io/docs/instrumenting/exposition_formats), which the Prometheus node exporter reads from files.
func (r *run) writeMetrics(path string) error {
	if path == "" {
		return nil
	}
	return exit.Cant("write the metrics", durable.WriteOutput(path, r.prometheus()))
}

func (r *run) prometheus() []byte {
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
	for _, b := range slices.Sorted(maps.Keys(r.Counters)) {
		for _, name := range slices.Sorted(maps.Keys(r.Counters[b])) {
			m.sample(r.Counters[b][name], "builder", b, "counter", name)
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

// pairsOf returns the first dpo builder that the configuration selects.
func pairsOf(p *plan) (of compat.Pairs) {
	for _, b := range p.config.Selected() {
		if c, ok := b.Config.(*dpo.Config); ok {
			return compat.Pairs{Name: b.Name, Config: c}
		}
	}
	return of
}

// publish uploads a complete run to object storage if its output belongs there. It then removes the run's folder on
// this machine, unless the run has a job that hasn't completed, because the commands that follow the job need that
// folder.
func (r *run) publish(ctx context.Context) error {
	if r.stored == "" || r.Shard != nil || !runfolder.Has(r.folder.Manifest()) {
		return nil
	}
	r.Tell(stage.Progress{Step: "publish", Text: "publish  " + string(r.stored)})
	if err := r.stored.Publish(ctx, r.folder); err != nil {
		return exit.Default(exit.Environment, err)
	}
	own, to := string(r.folder), string(r.stored)
	r.sum.RunDir, r.sum.DatasetDir = to, objects.Join(to, r.folder.Rel(r.folder.Dataset()))
	r.sum.Next = strings.ReplaceAll(r.sum.Next, own, to)
	for i := range r.Warnings {
		r.Warnings[i] = strings.ReplaceAll(r.Warnings[i], own, to)
	}
	if r.sum.Job != nil && r.sum.Status != runfolder.Completed {
		r.Warn("the job has not completed, so the run's folder stays on this machine: %s", own)
		return nil
	}
	if err := os.RemoveAll(own); err != nil {
		return exit.With(exit.Environment, err)
	}
	_ = os.Remove(filepath.Dir(own)) // fails if it contains other runs
	return nil
}
