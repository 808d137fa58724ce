package finetune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/builtin"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/exit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/nat"
)

// sampledExamples is how many entries of an input are read to write a configuration for it.
const sampledExamples = 200

// Scaffold returns a small, commented configuration for an input, from what its first entries hold.
func Scaffold(ctx context.Context, from []string, sourceType string, env Env) ([]byte, error) {
	req := Request{From: from, Source: sourceType, Builders: []string{"dpo"}}
	c, err := loadConfig(req, env, builtin.Types())
	if err != nil {
		return nil, err
	}
	in, err := chooseInputs(ctx, &plan{Request: req, config: c})
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, in)
	if err != nil {
		return nil, err
	}
	return s.yaml(from, in.source.Type), nil
}

// sample is what the first entries of an input hold.
type sample struct {
	examples, candidates, chats int
	whole                       bool // the sample is the whole input
	stats                       source.Stats
	step                        string // the step name of most candidates
}

func look(ctx context.Context, in *inputs) (*sample, error) {
	src, err := in.open(ctx, in.paths[0], source.Options{})
	if err != nil {
		return nil, exit.With(exit.Failed, err)
	}
	defer src.Close()
	s := &sample{}
	for s.examples < sampledExamples {
		ex, _, err := src.Next(ctx)
		if errors.Is(err, io.EOF) {
			s.whole = true
			break
		}
		if err != nil {
			return nil, exit.With(exit.Failed, err)
		}
		s.examples++
		s.candidates += len(ex.Candidates)
		for i := range ex.Candidates {
			if ex.Candidates[i].Prompt.Form == ttc.MessagesPrompt {
				s.chats++
			}
		}
	}
	s.stats = *src.Stats()
	for _, name := range slices.Sorted(maps.Keys(s.stats.Names)) {
		if s.step == "" || s.stats.Names[name] > s.stats.Names[s.step] {
			s.step = name
		}
	}
	return s, nil
}

func (s *sample) yaml(from []string, kind string) []byte {
	var b strings.Builder
	some := "the first "
	if s.whole {
		some = "its "
	}
	fmt.Fprintf(&b, "# Made by `nat-go init` from %s%s with %s.\n", some, ledger.Quantity(int64(s.examples), unitExample), ledger.Quantity(int64(s.candidates), unitCandidate))
	b.WriteString("# Check it with `nat-go validate --config-file FILE`; run it with `nat-go finetune run --config-file FILE`.\n\n")
	fmt.Fprintf(&b, "sources:\n  runs: {_type: %s, path: %s}\n\n", kind, flow(from))
	b.WriteString("trajectory_builders:\n  pairs:\n    _type: dpo_traj_builder\n")
	if s.step != "" {
		fmt.Fprintf(&b, "    ttc_step_name: %s%s\n", flow(s.step), s.otherSteps())
	} else if kind == nat.Type {
		fmt.Fprintf(&b, "    # %s\n", nat.NoMatch(&s.stats, "dpo_candidate_move"))
	}
	b.WriteString("    strategy: exhaustive      # or best_vs_worst, adjacent, best_vs_rest, threshold, random_k\n")
	b.WriteString("    min_score_diff: 0         # leave out pairs whose scores are closer\n")
	b.WriteString("    # max_pairs_per_turn: 4   # keep those with the largest difference\n\n")
	b.WriteString("dataset:\n  formats: [trl]              # nat-go formats lists them\n")
	if s.chats < s.candidates {
		b.WriteString("  prompt_as: user_message     # a prompt that is a text becomes one user message; or text\n")
	}
	b.WriteString("  split: {by: example, validation: 0.2, seed: 0}\n\n")
	b.WriteString("finetuning:\n  enabled: true\n  trajectory_builder: pairs\n  output_dir: out\n  # trainer and trainer_adapter: without them the data set is written as files\n")
	return []byte(b.String())
}

// otherSteps is a comment that names the step names that were not chosen.
func (s *sample) otherSteps() string {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(s.stats.Names)) {
		if name != s.step && len(others) < 5 {
			others = append(others, strings.Join(strings.Fields(name), " "))
		}
	}
	if others == nil {
		return ""
	}
	return "   # also seen: " + strings.Join(others, ", ")
}

// flow writes a value as YAML on one line.
func flow(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return fmt.Sprintf("%q", v)
	}
	if n.Kind == yaml.SequenceNode {
		n.Style = yaml.FlowStyle
	}
	out, err := yaml.Marshal(&n)
	if err != nil {
		return fmt.Sprintf("%q", v)
	}
	return strings.TrimSpace(string(out))
}
