package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
)

const divergenceBuilder = "divergence_traj_builder"

// remedy is what would have a builder make something of the input.
type remedy struct {
	flags    []string       // of `nat-go run FILE`
	why      string         // what that does, or what the input lacks
	builder  string         // that makes something with the settings; empty: the input lacks something
	settings map[string]any // with the report's own
}

// remedies finds, for each builder that makes nothing, what would change that. What can be tried on what was read is.
func (y *yields) remedies(ctx context.Context, r *Report) error {
	for i := range r.Builders {
		b := &r.Builders[i]
		if b.Records > 0 {
			continue
		}
		for _, m := range r.remediesOf(b) {
			made, err := y.tried(ctx, r, m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				continue // with these settings the builder refuses the input
			}
			if made != 0 {
				b.Remedy = r.command(m, made)
				break
			}
		}
	}
	return nil
}

// tried returns how many records a remedy makes; -1 if it can't be tried because the input lacks something.
func (y *yields) tried(ctx context.Context, r *Report, m remedy) (int64, error) {
	if m.builder == "" {
		return -1, nil
	}
	f, _ := builtin.Builder(m.builder)
	all := settings(f, r)
	maps.Copy(all, m.settings)
	text, err := json.Marshal(all)
	if err != nil {
		return 0, err
	}
	out, err := y.with(ctx, f, text)
	if out == nil || err != nil {
		return 0, err
	}
	return out.Records, nil
}

// command says a remedy in one line.
func (r *Report) command(m remedy, made int64) string {
	line := "nat-go run " + strings.Join(r.Paths, " ")
	if len(m.flags) > 0 {
		line += " " + strings.Join(m.flags, " ")
	}
	if made > 0 {
		return fmt.Sprintf("`%s` makes %d: %s", line, made, m.why)
	}
	return fmt.Sprintf("%s: `%s`", m.why, line)
}

// remediesOf lists what may help a builder that makes nothing, best first. The last always says what the input lacks.
func (r *Report) remediesOf(y *Yield) []remedy {
	switch y.Builder {
	case dpoBuilder:
		return append(r.forPairs(), remedy{
			flags: []string{"--builder dpo"},
			why:   `it compares answers to one prompt: add lines with another answer to the same prompt and another score`,
		})
	case divergenceBuilder:
		return []remedy{
			{
				flags:    []string{"--builder divergence", "-o trajectory_builders.divergence.compare=branches"},
				builder:  divergenceBuilder,
				settings: map[string]any{"compare": "branches"}, why: "answers that a session abandoned, against the one it went on from",
			},
			{flags: []string{"--builder dpo"}, builder: dpoBuilder, why: "answers to one prompt are pairs for dpo"},
			r.scoresFor("divergence", "it compares scored rollouts of one task: give several rollouts the same task, and each its score"),
		}
	case grpoBuilder:
		return []remedy{{
			flags: []string{"--builder grpo"},
			why:   "it takes scored answers, and conversations with turns of the model: give each line messages",
		}}
	case sdpoBuilder:
		return r.forHints(y)
	}
	return []remedy{
		{
			flags: []string{"--builder sft", "-o trajectory_builders.sft.select=all"}, builder: sftBuilder,
			settings: map[string]any{"select": "all"}, why: "all are imitated, the lowest score included",
		},
		{
			flags: []string{"--builder sft", "-o trajectory_builders.sft.failed_calls=train"}, builder: sftBuilder,
			settings: map[string]any{"failed_calls": "train"}, why: "failed calls are imitated, too",
		},
		{flags: []string{"--builder sft"}, why: "it imitates what a model wrote: give each line messages, of which some are the assistant's"},
	}
}

// forPairs lists other ways to pairs.
func (r *Report) forPairs() []remedy {
	return []remedy{
		{flags: []string{"--builder divergence"}, builder: divergenceBuilder, why: "dpo takes candidates, and these are rollouts, which divergence compares"},
		{
			flags:    []string{"--builder divergence", "-o trajectory_builders.divergence.compare=branches"},
			builder:  divergenceBuilder,
			settings: map[string]any{"compare": "branches"}, why: "answers that a session abandoned, against the one it went on from",
		},
		{
			flags:    []string{"--builder sdpo", "-o 'trajectory_builders.sdpo.emit=[repair_pairs]'"},
			builder:  sdpoBuilder,
			settings: map[string]any{"emit": []string{"repair_pairs"}},
			why:      "calls that worked later, over those that failed",
		},
	}
}

// forHints lists what finds failed calls, or gives them hints.
func (r *Report) forHints(y *Yield) []remedy {
	all := []remedy{{
		flags: []string{"--builder sdpo", "-o trajectory_builders.sdpo.target=both"}, builder: sdpoBuilder,
		settings: map[string]any{"target": "both"}, why: "the turn after an error is a target, too",
	}}
	if r.ToolCalls == 0 {
		return append(all, remedy{flags: []string{"--builder sdpo"}, why: "it takes tool calls that failed: give traces with tool_calls and their results"})
	}
	return append(all, remedy{
		flags: []string{"--builder sdpo", "-o 'trajectory_builders.sdpo.detect.match=[{pattern: WORDS}]'"},
		why:   "no call failed as far as the rules can tell; a pattern says which results mean failure",
	})
}

// scoresFor says how to give scores, if there are none.
func (r *Report) scoresFor(builder, why string) remedy {
	m := remedy{flags: []string{"--builder " + builder}, why: why}
	if r.Scored == 0 && r.Examples > 0 && r.Candidates == 0 {
		m.flags = append(m.flags, "-o dataset.scores.path=SCORES.jsonl")
		m.why = `it compares scores, and there are none: give them in a file of lines {"id": ..., "score": ...}`
	}
	return m
}

// Also says what else the input could give, besides what is chosen.
func (r *Report) Also() (out []string) {
	some := ""
	if !r.Whole {
		some = "at least "
	}
	chosen := map[string]bool{}
	for _, b := range r.Choice.Builders {
		chosen[b] = true
	}
	for _, y := range slices.Concat(r.Builders, r.others) {
		if chosen[y.Builder] || y.Records == 0 {
			continue
		}
		switch y.Builder {
		case sdpoBuilder:
			out = append(out, fmt.Sprintf("%s%s with hints: add --builder sdpo and -o collator.tokenizer=FOLDER", some,
				quantity(int(y.sites()), "site")))
		case grpoBuilder:
			if r.Scored > 0 {
				out = append(out, fmt.Sprintf("%s%s with rewards: add --builder grpo, and --format kto for good and bad ones", some,
					quantity(int(y.Records), "rollout")))
			}
		case sftBuilder:
			out = append(out, fmt.Sprintf("%s%s: add --builder sft", some, quantity(int(y.Records), "demonstration")))
		default:
			out = append(out, fmt.Sprintf("%s%s: add --builder %s", some, quantity(int(y.Records), "preference pair"),
				y.Name()))
		}
	}
	return out
}

// sites returns the number of failed calls with hints.
func (y *Yield) sites() (n int64) {
	for name, of := range y.Counters {
		if strings.HasPrefix(name, "sites/") {
			n += of
		}
	}
	return n
}
