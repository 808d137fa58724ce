package finetune

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/internal/terminal"
)

// advisePolicy says which models sampled the rollouts, where the configuration doesn't name the model to be trained:
// then no rollout counts as its own. The only model that they name isn't taken without being asked for, because the
// shards of a run, which see a part of the rollouts each, would have to agree.
func (r *run) advisePolicy(ctx context.Context, d *curate.Decisions) error {
	if r.plan.config.Collator.Policy != "" || r.plan.shard != nil || !r.plan.makesRollouts() {
		return nil
	}
	models, err := r.models(ctx, d)
	if err != nil || len(models) == 0 {
		return err
	}
	names := slices.Sorted(maps.Keys(models))
	var of []string
	most := names[0]
	for _, name := range names {
		of = append(of, fmt.Sprintf("%s (%d)", terminal.Line(name), models[name]))
		if models[name] > models[most] {
			most = name
		}
	}
	r.warn("the rollouts were sampled by %s, and collator.policy doesn't say which model is to be trained, so that all are "+
		"off_policy: -o collator.policy=%s", strings.Join(of, ", "), terminal.Line(most))
	return nil
}

// makesRollouts reports whether a builder of the run may make any.
func (p *plan) makesRollouts() bool {
	return slices.ContainsFunc(p.config.Selected(), func(b config.Block) bool {
		for _, own := range builtin.Builders() {
			if i := own.Info(); i.Name == b.Type {
				return slices.Contains(i.Kinds, builders.KindRollout)
			}
		}
		return true // a plugin's
	})
}

// models counts the kept rollouts by the models that sampled their turns.
func (r *run) models(ctx context.Context, d *curate.Decisions) (map[string]int, error) {
	models := map[string]int{}
	for g, err := range recordlog.Groups(r.plan.folder.Records()) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		for i := range g.Records {
			rec := &g.Records[i]
			if rec.Record.Kind() != builders.KindRollout || !d.At(g.First+uint64(i)).Kept() {
				continue
			}
			nodes := rec.Messages.Nodes
			of := map[string]bool{}
			for n, trained := range builders.TrainAll.Turns(nodes, nil) {
				name := nodes[n].Policy
				if name == "" {
					name = rec.Origin.Policy
				}
				if trained && name != "" {
					of[name] = true
				}
			}
			for name := range of {
				models[name]++
			}
		}
	}
	return models, nil
}
