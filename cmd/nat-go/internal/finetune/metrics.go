package finetune

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

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
	m.text = append(append(m.text, m.name...), `{run="`...)
	m.text = append(append(m.text, labelText.Replace(m.run)...), '"')
	for i := 0; i < len(labels); i += 2 {
		m.text = append(append(append(m.text, ','), labels[i]...), `="`...)
		m.text = append(append(m.text, labelText.Replace(labels[i+1])...), '"')
	}
	m.text = append(strconv.AppendInt(append(m.text, "} "...), n, 10), '\n')
}

var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
