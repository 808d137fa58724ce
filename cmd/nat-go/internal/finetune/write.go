package finetune

import (
	"context"
	"os"
	"path/filepath"

	"github.com/nat-go/nat-go/builders/dpo"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/internal/durable"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

const unitRecord = "record"

// write writes the data set in every format asked for. A run that kept nothing has none, and says why.
func (r *run) write(ctx context.Context) error {
	p := r.plan
	if p.Compat {
		dir := p.folder.Format(dataset.Trajectories)
		if err := writeTrajectories(dir, p.folder.Records(), p.RunID, r.decisions); err != nil {
			return exit.Environmentf("can't write NAT's trajectories: %w", err)
		}
	}
	kept := r.kept()
	formats := p.formats
	if kept == 0 {
		formats = nil // the pass over the log is still made: it books the decisions
	}
	written, err := dataset.Write(ctx, dataset.Spec{
		Dir: p.folder.Dataset(), Log: p.folder.Records(), Decisions: r.decisions,
		Formats: formats, Options: p.options, Dropped: r.drops.add, Group: r.settleDecisions,
	})
	if err != nil {
		return exit.Environmentf("can't write the data set: %w", err)
	}
	r.written = written
	for _, w := range written {
		r.book.In(ledger.Write, dataset.Unit(w.Format), kept)
		r.book.Out(ledger.Write, dataset.Unit(w.Format), w.Records)
	}
	if kept > 0 && p.copyTo != "" {
		return r.copyForNAT()
	}
	return nil
}

// copyForNAT puts the Customizer's files where NAT puts them: <dataset_output_dir>/<run_id>/.
func (r *run) copyForNAT() error {
	to := filepath.Join(r.plan.copyTo, r.plan.RunID)
	from := r.plan.folder.Format("customizer")
	names, err := filepath.Glob(filepath.Join(from, "*_file.jsonl"))
	if err == nil && len(names) > 0 {
		err = os.MkdirAll(to, 0o755)
	}
	for _, name := range names {
		if err == nil {
			err = copyFile(filepath.Join(to, filepath.Base(name)), name)
		}
	}
	if err != nil {
		return exit.Environmentf("can't copy the data set to dataset_output_dir: %w", err)
	}
	return nil
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.CopyOutput(to, in)
}

// noData says why nothing was kept, and what to do.
func (r *run) noData() error {
	c := r.sum.Counts
	for _, b := range r.plan.config.Selected() {
		if d, ok := b.Config.(*dpo.Config); ok && r.plan.inputs.source.Type == nat.Type && !r.plan.Compat {
			if why := nat.NoMatch(&r.seen, d.StepName); why != "" {
				return exit.Failedf("no trajectories collected. %s", why)
			}
		}
	}
	if c.Records == 0 {
		return exit.Failedf("no trajectories collected: the builders made no record of %s; %s lists why", ledger.Quantity(c.Examples, unitExample), r.plan.folder.Dropped())
	}
	return exit.Failedf("no trajectories collected: nothing is left of %s; %s lists why", ledger.Quantity(c.Records, unitRecord), r.plan.folder.Dropped())
}
