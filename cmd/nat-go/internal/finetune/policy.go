package finetune

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/internal/terminal"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/source"
)

// asksForPolicy reports whether the inputs must name the model to be trained, because the run makes token rows from
// rollouts and the configuration doesn't name the model.
func (p *plan) asksForPolicy() bool {
	if p.config.Collator.Tokenizer == "" || p.config.Collator.Policy != "" {
		return false
	}
	return slices.ContainsFunc(p.config.Selected(), func(b config.Block) bool {
		for _, own := range builtin.Builders() {
			if i := own.Info(); i.Name == b.Type {
				return slices.Contains(i.Kinds, builders.KindRollout)
			}
		}
		return true // a plugin's builder may make rollouts
	})
}

// countModels counts an example once for each model that sampled any part of it.
func countModels(models map[string]int64, ex *ttc.Example) {
	var names []string
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for i := range ex.Graph.Nodes {
		if n := &ex.Graph.Nodes[i]; n.Message.Role == "assistant" && n.Sampled != ttc.No {
			if n.Policy == "" {
				add(ex.Policy)
			}
			add(n.Policy)
		}
	}
	if len(ex.Candidates) > 0 {
		add(ex.Policy)
	}
	for _, name := range names {
		models[name]++
	}
}

// takePolicy uses the only model named in the inputs as the model to be trained, if the configuration doesn't name one.
// It does so only if byTask is set, which means that all inputs were read and grouped before any record was built;
// otherwise, shards might choose different models.
func (t *tokens) takePolicy(p *plan, seen *source.Stats, byTask bool) {
	if t == nil || !byTask || !p.asksForPolicy() || len(seen.Models) != 1 {
		return
	}
	for name := range seen.Models {
		t.policy, t.collator = name, t.collator.For(name)
	}
}

// advisePolicy warns if the model to be trained is unknown although the inputs name the models that sampled the
// rollouts. In that case, no rollout counts as sampled by the model to be trained.
func (r collation) advisePolicy(t *tokens, seen *source.Stats) {
	if t.policy != "" || !r.plan.asksForPolicy() || len(seen.Models) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(seen.Models))
	var of []string
	best := names[0]
	for _, name := range names {
		of = append(of, fmt.Sprintf("%s (%d)", terminal.Line(name), seen.Models[name]))
		if seen.Models[name] > seen.Models[best] {
			best = name
		}
	}
	r.out.warn("the rollouts were sampled by %s, and collator.policy doesn't say which model is to be trained, so "+
		"all of them are off_policy: -o collator.policy=%s", strings.Join(of, ", "), terminal.Line(best))
}
