package finetune

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders/divergence"
	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/builders/grpo"
	"github.com/nat-go/nat-go/builders/sdpo"
	"github.com/nat-go/nat-go/builders/sft"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/compat"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/inspect"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/stage"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/internal/objects"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// account completes the list of drops, and writes NAT's progress files and, last, the manifest, which says whether the
// run succeeded. If the run failed, account returns the reason.
func (r *run) account(ctx context.Context) error {
	out, made, seen := r.out, r.out.made, &r.built.At.Seen
	// A merge writes its starting state only now, because the folder of an interrupted merge must not look like a run
	// that can be resumed.
	if r.plan.join != nil {
		if err := (decider{r.plan, r.tokens}).writeBegun(made.Inputs); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	if err := out.Close(); err != nil {
		return exit.Environmentf("can't write the list of drops: %w", err)
	}
	if err := out.history.WriteProgress(r.plan.folder); err != nil {
		return exit.Environmentf("can't write NAT's progress files: %w", err)
	}
	out.count()
	for _, b := range r.plan.config.Selected() {
		var remarks []string
		counters := out.Counters[b.Name]
		switch c := b.Config.(type) {
		case *divergence.Config:
			remarks = divergence.Remarks(counters)
		case *grpo.Config:
			remarks = grpo.Remarks(counters)
		case *sdpo.Config:
			remarks = sdpo.Remarks(c, counters, out.Near[b.Name])
		case *sft.Config:
			remarks = sft.Remarks(counters)
		}
		for _, text := range remarks {
			out.Warn("%s: %s", b.Name, text)
		}
	}
	failure := verdict{r.plan, out}.failure(ctx, seen)
	made.Status, made.Warnings, made.Seed = runfolder.Completed, out.Warnings, r.plan.rules.Split.Seed
	if seen.Fidelity != nil {
		made.Fidelity = &runfolder.Fidelity{
			Calls: seen.Fidelity, Gaps: seen.Gaps, Rising: seen.Rising, Proven: seen.Proven,
		}
	}
	if failure != nil {
		made.Status, made.Error = runfolder.Failed, r.out.Hide(failure.Error())
	}
	if _, err := out.knowLog(r.plan.folder); err != nil {
		return err
	}
	if err := r.lock.WriteManifest(made, out.Files); err != nil {
		return exit.Environmentf("can't write the manifest: %w", err)
	}
	out.sum.Status = made.Status
	r.unlock() // the data set is complete; submitting the job takes the lock again
	if failure == nil {
		out.Info("data set complete", "dataset", r.plan.folder.Dataset())
	}
	return failure
}

// verdict determines whether a run succeeded.
type verdict struct {
	plan *plan
	out  *report
}

// failure returns an error if the run failed although everything was written, because the books don't balance or
// nothing is left to train on.
func (r verdict) failure(ctx context.Context, seen *source.Stats) error {
	if err := r.out.Check(); err != nil {
		return exit.Failedf("%w: this is a bug in nat-go; the data set is in %s, but don't trust its counts",
			err, r.plan.folder.Dataset())
	}
	if r.out.made.Counts.Kept == 0 {
		return r.noData(ctx, seen)
	}
	if !r.hasRows() && (r.out.made.Batches == nil || len(r.out.made.Batches.Counts) == 0) {
		return exit.Failedf("data set is empty: none of the requested formats can carry a record%s; %s lists the reasons%s",
			r.refusals(), r.plan.folder.Dropped(), r.needsTokens())
	}
	return r.noBatches()
}

// refusals returns, in parentheses, each format's most frequent reason for refusing records.
func (r verdict) refusals() string {
	var parts []string
	for _, w := range r.out.made.Dataset {
		if len(w.Refused) > 0 {
			parts = append(parts, w.Format+": "+w.Refused[0].Why)
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// needsTokens returns a note that hints need token batches, if the run produced hints without a tokenizer.
func (r verdict) needsTokens() string {
	if len(sumCounters(r.out.made.Counters, "sites/")) == 0 || r.plan.config.Collator.Tokenizer != "" {
		return ""
	}
	again := "rerun with"
	if len(r.plan.From) > 0 {
		again = "nat-go run " + strings.Join(r.plan.From, " ") + " --builder sdpo"
	}
	return "; token batches contain the hints of all turns: " + again +
		" -o collator.tokenizer=FOLDER, the folder of the model's tokenizer"
}

// noBatches returns an error if the collator was given records but produced no batch. If text rows were written and
// some records lack sampled ids, it only adds a warning.
func (r verdict) noBatches() error {
	if r.out.made.Batches == nil || len(r.out.made.Batches.Counts) > 0 {
		return nil
	}
	a := r.out.Of(ledger.Collate, stage.UnitRecord)
	if a.In == 0 {
		return nil
	}
	var table strings.Builder
	for _, reason := range slices.SortedFunc(maps.Keys(a.Dropped), func(x, y ledger.Reason) int {
		return cmp.Or(cmp.Compare(a.Dropped[y], a.Dropped[x]), cmp.Compare(x, y))
	}) {
		fmt.Fprintf(&table, "\n  %-16s %s", ledger.Quantity(a.Dropped[reason], stage.UnitRecord), reason)
	}
	if r.hasRows() && a.Dropped[collator.NoSampledIDs] > 0 { // missing ids don't fail a run that wrote rows
		r.out.Warn("rows were written, but no token batch was built from %s: %s%s", ledger.Quantity(a.In, stage.UnitRecord),
			strings.Join(strings.Fields(table.String()), " "), remedyOf(a.Dropped))
		return nil
	}
	return exit.Failedf("no token batch was built from %s given to the collator:%s\n%s lists the reason for each, "+
		"and `nat-go explain CODE` says what to do%s", ledger.Quantity(a.In, stage.UnitRecord), table.String(),
		r.plan.folder.Dropped(), remedyOf(a.Dropped))
}

// remedyOf returns advice on the setting that produces token batches from the dropped records, or "" if such a setting
// doesn't exist.
func remedyOf(dropped map[ledger.Reason]int64) string {
	if dropped[collator.NoSampledIDs] == 0 {
		return ""
	}
	return "; -o collator.rl.ids=rendered tokenises the text instead: ids may then differ from the sampled ones, and the rows " +
		"lack log-probs, which KTO doesn't need and GRPO computes itself or does without"
}

// noData returns the error for a run that kept nothing, with advice.
func (r verdict) noData(ctx context.Context, seen *source.Stats) error {
	c, first := r.out.made.Counts, r.out.First
	for _, b := range r.plan.config.Selected() {
		d, ok := b.Config.(*dpo.Config)
		if !ok || r.out.made.Source != readers.NATType || !r.plan.Compat.ExplainsEmpty() {
			continue
		}
		if why := readers.NoMatch(seen, d.StepName); why != "" {
			return exit.Failedf("no trajectories collected. %s", why)
		}
	}
	if c.Records == 0 {
		return exit.Failedf("no trajectories collected: the builders produced no record from %s%s; %s lists why%s",
			ledger.Quantity(c.Examples, stage.UnitExample), cmp.Or(first[ledger.Build], first[ledger.Source]),
			r.plan.folder.Dropped(), r.remedies(ctx))
	}
	return exit.Failedf("no trajectories collected: nothing is left of %s%s; %s lists why",
		ledger.Quantity(c.Records, stage.UnitRecord), cmp.Or(first[ledger.Curate], first[ledger.Gate]),
		r.plan.folder.Dropped())
}

// remedies returns one line for each of the run's builders that could build records from the inputs with other
// settings.
func (r verdict) remedies(ctx context.Context) (text string) {
	p := r.plan
	if len(p.From) == 0 || p.Compat == compat.NAT {
		return ""
	}
	report, err := inspect.Look(ctx, inspect.Options{
		Paths: p.From, Source: p.Source, Map: p.keys, Overrides: p.Overrides,
	})
	if err != nil {
		return "" // the run fails without advice
	}
	for _, b := range p.config.Selected() {
		for _, y := range report.Builders {
			if y.Builder == b.Type && y.Remedy != "" {
				text += "\n  " + y.Name() + ": " + y.Remedy
			}
		}
	}
	return text
}

// hasRows reports whether any row was written in any format.
func (r verdict) hasRows() bool {
	return slices.ContainsFunc(r.out.made.Dataset, func(w runfolder.Written) bool { return w.Records > 0 })
}

// unversioned is the result of Version if the program was built without a version.
const unversioned = "devel"

// Version returns the module version that the program was built from, or "devel".
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return unversioned
}

// A run whose output goes to object storage is made in a folder on this machine, so that it can be resumed after an
// interruption, and is published once it is complete.

// publishTo sets the location where the run is published, and the folder in which it is made.
func (p *plan) publishTo(dir string, env stage.Env) error {
	p.stored = runfolder.Stored(objects.Join(dir, p.RunID))
	if err := p.stored.Check(); err != nil {
		return exit.With(exit.Usage, err)
	}
	runs := env.Runs
	if runs == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return exit.Environmentf("can't find the user's cache folder, where a run for object storage is made: %w", err)
		}
		sum := xxh3.HashString128(dir).Bytes()
		runs = filepath.Join(cache, "nat-go", "runs", hex.EncodeToString(sum[:8]))
	}
	p.folder = runfolder.Folder(filepath.Join(runs, p.RunID))
	return nil
}

// publish uploads a complete run to object storage if its output belongs there. It then removes the run's folder on
// this machine, unless the run has a job that hasn't completed, because the commands that follow the job need that
// folder.
func (r *report) publish(ctx context.Context, p *plan) error {
	if p.stored == "" || p.shard != nil || !runfolder.Has(p.folder.Manifest()) {
		return nil
	}
	r.Tell(stage.Progress{Step: "publish", Text: "publish  " + string(p.stored)})
	if err := p.stored.Publish(ctx, p.folder); err != nil {
		return exit.Default(exit.Environment, err)
	}
	own, to := string(p.folder), string(p.stored)
	r.sum.RunDir, r.sum.DatasetDir = to, objects.Join(to, p.folder.Rel(p.folder.Dataset()))
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
