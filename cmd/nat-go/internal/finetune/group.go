package finetune

import (
	"context"
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/plugins/wire"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// grouped says whether a builder asks for groups of more than an example. In compat a collection run is one group anyway.
func (r *run) grouped() bool { return r.unit() != builders.UnitExample && !r.plan.Compat }

// unit is the run's unit: the coarsest that its builders ask for.
func (r *run) unit() builders.Unit {
	unit := builders.UnitExample
	for _, s := range r.stages {
		unit = max(unit, s.unit)
	}
	return unit
}

// feedGroups reads all collection runs into an index and sends what it groups. A task's rollouts may be of several
// collection runs. To go on after a crash the inputs are read again: the index is no part of what is committed.
func (r *run) feedGroups(ctx context.Context, from cursor, items chan<- item) error {
	opt := group.Options{Dir: string(r.plan.folder)}
	if r.unit() == builders.UnitRun {
		opt.By = group.Run
	}
	index, err := group.New(wire.NewExampleCodec(), opt)
	if err != nil {
		return exit.With(exit.Environment, err)
	}
	defer index.Close()
	for k := range r.plan.inputs.paths {
		if k == from.Source.Run && index.Len() != from.Seen.Examples {
			return exit.Environmentf("the inputs gave %d examples before the run was interrupted and %d now: they changed, so the run can't be resumed", from.Seen.Examples, index.Len())
		}
		f := feeder{run: r, k: k, items: items, index: index, told: from.Source}
		if err := f.collect(ctx, nil, slices.Contains(from.Failed, k)); err != nil {
			return err
		}
	}
	f := feeder{run: r, k: len(r.plan.inputs.paths), items: items, done: from.Groups}
	for g, err := range index.Groups(from.Groups) {
		if err != nil {
			return exit.With(exit.Environment, err)
		}
		f.done++
		if g.Refused != nil {
			f.drops = append(f.drops, refusal(g.Refused))
			err = f.push(ctx, item{})
		} else {
			err = f.send(ctx, g.Group)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropsHeld is how many drops may wait for the next frame while no groups are sent.
const dropsHeld = 1000

// keep puts an example into the index. What the source dropped on the way goes to the log now and then, unless it is there
// already: the run was interrupted later than this.
func (f *feeder) keep(ctx context.Context, ex *ttc.Example) error {
	if err := f.index.Add(ex); err != nil {
		return exit.With(exit.Environment, err)
	}
	switch {
	case f.at.Run < f.told.Run || f.at.Run == f.told.Run && f.at.Row <= f.told.Row:
		f.drops = nil
	case len(f.drops) >= dropsHeld:
		return f.push(ctx, item{})
	}
	return nil
}

func refusal(r *group.Refusal) ledger.Drop {
	ex := r.First
	return ledger.Drop{
		Stage: ledger.Source, Reason: ledger.GroupTooLarge, Unit: unitExample, Run: ex.Run, Example: ex.ID, Index: -1,
		File: ex.File, Offset: ex.Offset, Count: r.Examples, Detail: r.Error(),
	}
}

// partsFor is the group as a stage takes it: whole where the stage's unit is the run's, else an example at a time.
func (it *item) partsFor(s *stage, unit builders.Unit) []*ttc.Group {
	if len(it.group.Examples) <= 1 || s.unit != builders.UnitExample && s.unit == unit {
		return []*ttc.Group{it.group}
	}
	if it.parts == nil {
		for _, ex := range it.group.Examples {
			it.parts = append(it.parts, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		}
	}
	return it.parts
}

// results takes what every builder made of a group, part by part.
func (r *run) results(ctx context.Context, it *item) ([][]*stageResult, error) {
	if len(it.group.Examples) == 0 {
		return nil, nil
	}
	results := make([][]*stageResult, len(r.stages))
	for i, s := range r.stages {
		for _, g := range it.partsFor(s, r.unit()) {
			res, err := s.receive(ctx, g)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], res)
		}
	}
	return results, nil
}

// rebase makes a record of a part of a group one of the whole group, in which the part begins at the example first.
func rebase(r builders.Record, first int) {
	r.Header().Example += first
	for _, c := range contents(r) {
		if c.Ref.Part != builders.InlineText && c.Ref.Part != builders.InlineMessages {
			c.Ref.Example += first
		}
	}
}

func contents(r builders.Record) []*builders.Content {
	switch r := r.(type) {
	case *builders.Preference:
		return []*builders.Content{&r.Prompt, &r.Chosen, &r.Rejected}
	case *builders.Demonstration:
		return []*builders.Content{&r.Messages}
	case *builders.Rollout:
		return []*builders.Content{&r.Messages}
	case *builders.Distillation:
		return []*builders.Content{&r.Messages}
	}
	return nil
}

// again checks a collection run that was read before the interruption: it must fare as it did then.
func (f *feeder) again(failed bool, err error) error {
	switch {
	case err != nil && !failed:
		return exit.Environmentf("collection run %d could be read before the run was interrupted, and can't now: %w", f.k, err)
	case err == nil && failed:
		return exit.Environmentf("collection run %d couldn't be read before the run was interrupted, and can now: make the run again", f.k)
	}
	return nil
}
