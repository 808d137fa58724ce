package finetune

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

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
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// account completes the list of drops, and writes NAT's progress files and, last, the manifest, which says whether the
// run succeeded. If the run failed, account returns the reason.
func (r *run) account(ctx context.Context) error {
	made, seen := r.made, &r.built.At.Seen
	// A merge writes its starting state only now, because the folder of an interrupted merge must not look like a run
	// that can be resumed.
	if r.joined != nil {
		if err := r.writeBegun(made.Inputs); err != nil {
			return exit.Default(exit.Environment, err)
		}
	}
	if _, err := r.closeLists(); err != nil {
		return err
	}
	if err := r.history.WriteProgress(r.folder); err != nil {
		return exit.Environmentf("cannot write NAT's progress files: %w", err)
	}
	r.count()
	for _, b := range r.config.Selected() {
		var remarks []string
		counters := r.Counters[b.Name]
		switch c := b.Config.(type) {
		case *divergence.Config:
			remarks = divergence.Remarks(counters)
		case *grpo.Config:
			remarks = grpo.Remarks(counters)
		case *sdpo.Config:
			remarks = sdpo.Remarks(c, counters, r.Near[b.Name])
		case *sft.Config:
			remarks = sft.Remarks(counters)
		}
		for _, text := range remarks {
			r.Warn("%s: %s", b.Name, text)
		}
	}
	failure := r.failure(ctx, seen)
	made.Status, made.Warnings, made.Seed = runfolder.Completed, r.Warnings, r.rules.Split.Seed
	if seen.Fidelity != nil {
		made.Fidelity = &runfolder.Fidelity{
			Calls: seen.Fidelity, Gaps: seen.Gaps, Rising: seen.Rising, Proven: seen.Proven,
		}
	}
	if failure != nil {
		made.Status, made.Error = runfolder.Failed, r.Hide(failure.Error())
	}
	if err := r.lock.WriteManifest(made, r.Files); err != nil {
		return exit.Environmentf("cannot write the manifest: %w", err)
	}
	r.sum.Status = made.Status
	r.unlock() // the data set is complete; submitting the job takes the lock again
	if failure == nil {
		r.Info("data set complete", "dataset", r.folder.Dataset())
	}
	return failure
}

// failure returns an error if the run failed although everything was written, because its counts don't add up or it
// kept no records.
func (r *run) failure(ctx context.Context, seen *source.Stats) error {
	if err := r.Check(); err != nil {
		return exit.Failedf("%w: this is a bug in nat-go; the data set is in %s, but don't trust its counts",
			err, r.folder.Dataset())
	}
	if r.made.Counts.Kept == 0 {
		return r.noData(ctx, seen)
	}
	if !r.hasRows() && (r.made.Batches == nil || len(r.made.Batches.Counts) == 0) {
		return exit.Failedf("data set is empty: none of the requested formats can carry a record%s; %s lists the reasons%s",
			r.refusals(), r.folder.Dropped(), r.needsTokens())
	}
	return r.noBatches()
}

// refusals returns, in parentheses, each format's most frequent reason for rejecting records.
func (r *run) refusals() string {
	var parts []string
	for _, w := range r.made.Dataset {
		if len(w.Refused) > 0 {
			parts = append(parts, w.Format+": "+w.Refused[0].Why)
		}
	}
	if parts == nil {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// needsTokens returns a note on how to make token batches for hints. It returns "" unless the run produced hints
// without a tokenizer.
func (r *run) needsTokens() string {
	if len(sumCounters(r.made.Counters, "sites/")) == 0 || r.config.Collator.Tokenizer != "" {
		return ""
	}
	again := "rerun with"
	if len(r.From) > 0 {
		again = "nat-go run " + strings.Join(r.From, " ") + " --builder sdpo"
	}
	return "; token batches contain the hints of all turns: " + again +
		" -o collator.tokenizer=FOLDER, the folder of the model's tokenizer"
}

// noBatches returns an error if the collator was given records but produced no batch. If text rows were written and
// some records lack sampled ids, it only adds a warning.
func (r *run) noBatches() error {
	if r.made.Batches == nil || len(r.made.Batches.Counts) > 0 {
		return nil
	}
	a := r.Of(ledger.Collate, stage.UnitRecord)
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
		r.Warn("rows were written, but no token batch was built from %s: %s%s", ledger.Quantity(a.In, stage.UnitRecord),
			strings.Join(strings.Fields(table.String()), " "), remedyOf(a.Dropped))
		return nil
	}
	return exit.Failedf("no token batch was built from %s given to the collator:%s\n%s lists the reason for each, "+
		"and `nat-go explain CODE` says what to do%s", ledger.Quantity(a.In, stage.UnitRecord), table.String(),
		r.folder.Dropped(), remedyOf(a.Dropped))
}

// remedyOf returns advice on the setting that produces token batches from the dropped records, or "" if such a setting
// doesn't exist.
func remedyOf(dropped map[ledger.Reason]int64) string {
	if dropped[collator.NoSampledIDs] == 0 {
		return ""
	}
	return "; -o collator.rl.ids=rendered tokenises the text instead: ids may then differ from the sampled ones, and " +
		"the rows lack log-probs, which KTO doesn't need and GRPO computes itself or does without"
}

// noData returns the error for a run that kept nothing, with advice.
func (r *run) noData(ctx context.Context, seen *source.Stats) error {
	c, first := r.made.Counts, r.First
	for _, b := range r.config.Selected() {
		d, ok := b.Config.(*dpo.Config)
		if !ok || r.made.Source != readers.NATType || !r.Compat.ExplainsEmpty() {
			continue
		}
		if why := readers.NoMatch(seen, d.StepName); why != "" {
			return exit.Failedf("no trajectories collected. %s", why)
		}
	}
	if c.Records == 0 {
		return exit.Failedf("no trajectories collected: the builders produced no record from %s%s; %s lists why%s",
			ledger.Quantity(c.Examples, stage.UnitExample), cmp.Or(first[ledger.Build], first[ledger.Source]),
			r.folder.Dropped(), r.remedies(ctx))
	}
	return exit.Failedf("no trajectories collected: nothing is left of %s%s; %s lists why",
		ledger.Quantity(c.Records, stage.UnitRecord), cmp.Or(first[ledger.Curate], first[ledger.Gate]),
		r.folder.Dropped())
}

// remedies returns one line for each of the run's builders that could build records from the inputs with other
// settings.
func (r *run) remedies(ctx context.Context) (text string) {
	if len(r.From) == 0 || r.Compat == compat.NAT {
		return ""
	}
	report, err := inspect.Look(ctx, inspect.Options{
		Paths: r.From, Source: r.Source, Map: r.keys, Overrides: r.Overrides,
	})
	if err != nil {
		return "" // the run fails without advice
	}
	for _, b := range r.config.Selected() {
		for _, y := range report.Builders {
			if y.Builder == b.Type && y.Remedy != "" {
				text += "\n  " + y.Name() + ": " + y.Remedy
			}
		}
	}
	return text
}

// hasRows reports whether any row was written in any format.
func (r *run) hasRows() bool {
	return slices.ContainsFunc(r.made.Dataset, func(w runfolder.Written) bool { return w.Records > 0 })
}

// explain adds advice to an error that can end any stage, such as an interruption or a full disk.
func (r *run) explain(err error) error {
	again := "`nat-go " + r.commandToContinue() + "` continues from here"
	if r.joined != nil { // a failed merge can't be resumed, because its folder is removed
		again = "merge again"
	}
	switch {
	case errors.Is(err, context.Canceled) && r.sum.Job == nil:
		if r.lock != nil {
			r.sum.Next = again
		}
		state := "nothing was submitted"
		if r.Shard != nil {
			state = "the committed part of the shard is kept"
		}
		return exit.With(exit.Interrupted, errors.New("interrupted; "+state))
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return exit.Environmentf("%w: make room on the disk of %s, then %s", err, r.folder, again)
	}
	return err
}
