package finetune

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// account closes the books, and writes what tells of the run: the list of drops, NAT's progress files, the manifest.
func (r *run) account(context.Context) error {
	r.count()
	if err := r.drops.commit(); err != nil {
		return exit.Environmentf("can't write the list of drops: %w", err)
	}
	if err := r.writeProgress(); err != nil {
		return exit.Environmentf("can't write NAT's progress files: %w", err)
	}
	balance := r.book.Check()
	if err := r.writeManifest(); err != nil {
		return exit.Environmentf("can't write the manifest: %w", err)
	}
	if balance != nil {
		return exit.Failedf("%w: this is a defect of nat-go; the data set is in %s, don't trust its counts", balance, r.plan.folder.Dataset())
	}
	if r.sum.Counts.Kept == 0 {
		return r.noData()
	}
	if r.empty() {
		return exit.Failedf("the data set is empty: none of the formats asked for can carry the %d records that were kept; %s says why",
			r.sum.Counts.Kept, r.plan.folder.Dropped())
	}
	r.sum.Status = runfolder.Completed
	r.unlock() // the data set is complete; jobs have a lock of their own
	return nil
}

// count brings the summary up to date with the books.
func (r *run) count() {
	r.listWritten()
	if r.book == nil { // the books were closed by an earlier process
		return
	}
	c := &r.sum.Counts
	c.Examples = r.book.Account(ledger.Source, unitExample).In
	c.Candidates = r.seen.Candidates
	c.Records = r.book.Account(ledger.Gate, unitRecord).In
	c.Kept = r.book.Account(ledger.Curate, unitRecord).Out
	c.Dropped = r.book.DroppedByReason()
	r.sum.Accounts = r.book.Accounts()
	r.sum.Sites = sitesOf(r.counters)
}

// sitesOf sums the sites that builders counted as sites/CLASS/SOURCE/KIND.
func sitesOf(counters map[string]map[string]int64) map[string]int64 {
	sites := map[string]int64{}
	for _, of := range counters {
		for name, n := range of {
			if key, ok := strings.CutPrefix(name, "sites/"); ok {
				sites[key] += n
			}
		}
	}
	return sites
}

func (r *run) listWritten() {
	r.sum.Written, r.sum.Batches = nil, r.batches
	for _, w := range r.written {
		for _, f := range w.Files {
			r.sum.Written = append(r.sum.Written, WrittenFile{Path: f.Path, Rows: f.Rows})
		}
	}
}

// empty reports whether nothing was written of the records that were kept: no row in any format, and no batch.
func (r *run) empty() bool {
	for _, w := range r.written {
		if w.Records > 0 {
			return false
		}
	}
	return r.batches == nil || len(r.batches.Counts) == 0
}

func (r *run) warn(format string, a ...any) {
	r.sum.Warnings = append(r.sum.Warnings, fmt.Sprintf(format, a...))
}

func (r *run) writeManifest() error {
	status := runfolder.Completed
	if r.sum.Counts.Kept == 0 {
		status = runfolder.Failed
	}
	return r.plan.folder.WriteManifest(&runfolder.Manifest{
		NatGo: Version(), Log: recordlog.Version, RunID: r.plan.RunID, Status: status, Compat: r.plan.Compat,
		Source: r.plan.inputs.source.Type, Inputs: r.inputs, Seed: r.plan.rules.Split.Seed, Counts: r.sum.Counts, Books: r.sum.Accounts,
		Counters: r.counters, Dataset: r.written, Rows: r.plan.options, Batches: r.batches, Warnings: r.sum.Warnings,
	})
}

// Version is the module version the program was built from, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// writeProgress writes NAT's own progress files: a line for each collection run that gave records, and the same as a list.
func (r *run) writeProgress() error {
	stamp := r.env.Now().UTC().Format(time.RFC3339Nano)
	var lines, list []string
	for i := range r.runs {
		lines = append(lines, string(r.runs[i].line(r.plan.RunID, stamp))+"\n")
		list = append(list, "  "+string(r.runs[i].line(r.plan.RunID, stamp)))
	}
	for _, m := range r.metrics {
		m.Timestamp = stamp
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		if err := durable.WriteFile(r.plan.folder.BuilderMetrics(m.RunID), append(b, '\n')); err != nil {
			return err
		}
	}
	if len(lines) == 0 {
		return nil
	}
	if err := durable.WriteFile(r.plan.folder.Progress(), []byte(strings.Join(lines, ""))); err != nil {
		return err
	}
	return durable.WriteFile(r.plan.folder.History(), []byte("[\n"+strings.Join(list, ",\n")+"\n]\n"))
}
