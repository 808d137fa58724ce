package published

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/compose"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// verlRole matches a role on a line of its own. Such lines remain if a rendered chat is decoded without special
// tokens.
var verlRole = regexp.MustCompile(`(?m)^(system|user|assistant|tool)\n`)

// isVerl recognises the entries that verl writes into trainer.rollout_data_dir: inputs and outputs decoded without
// special tokens.
func isVerl(h *source.Head) bool {
	return hasAll(h, "input", "output", "score") && hasAny(h, "gts", "step", "gt", "acc") && h.Texts("input", splits)
}

func splits(input string) bool { return splitRoles(input) != nil }

// splitRoles splits a conversation decoded without special tokens into its messages. A line that contains only the name
// of a role begins a message. splitRoles returns nil unless the text begins with such a line and ends with a second
// one, which names the assistant.
func splitRoles(input string) json.Raw {
	body := strings.TrimRight(input, "\n") + "\n"
	at := verlRole.FindAllStringSubmatchIndex(body, -1)
	if len(at) < 2 || at[0][0] != 0 || body[at[len(at)-1][2]:] != "assistant\n" {
		return nil
	}
	var m compose.List
	for i, mark := range at[:len(at)-1] {
		m = m.AddMessage(body[mark[2]:mark[3]], strings.TrimSuffix(body[mark[1]:at[i+1][0]], "\n"))
	}
	return m.End()
}

// verl reads an entry of a rollout dump.
func verl(r *reading) (string, []Line) {
	input, output := r.text("input"), r.text("output")
	prompt := splitRoles(input)
	if prompt == nil {
		r.fail("expected each role in input on a separate line, and assistant on the last line")
	}
	r.score("score") // check that the score is a number
	id := input
	if step := source.IDText(value(r.Raw, "step")); step != "" { // rollouts of other steps come from another policy
		id = step + " " + input
	}
	id = session.Key(id)
	line := compose.Object(nil).Name(IDKey, id).Name(TaskKey, id).Name(TurnKey, "rollout").Set(PromptKey, prompt)
	line = line.Text(OutputKey, output).Set(ScoreKey, value(r.Raw, "score"))
	return id, []Line{{Answer: line.Set(MetadataKey, pick(r.Raw, "step", "gts", "acc")).End()}}
}

// isLMEval recognises the samples that lm-evaluation-harness writes with --log_samples.
func isLMEval(h *source.Head) bool {
	return hasAll(h, "doc_id", "doc", "resps") && hasAny(h, "arguments", "target", "filtered_resps")
}

// lmEval reads a sample. Its answers are the model's output before any filters. If a sample has several answers, its
// score belongs to the answer that the filter chose (lm_eval/filters/selection.py); the other answers have no score.
func lmEval(r *reading) (id string, lines []Line) {
	prompt := source.At(r.Raw, "arguments.gen_args_0.arg_0")
	if prompt == nil {
		prompt = source.At(r.Raw, "arguments.0.0")
	}
	if prompt.Kind() != json.String {
		r.fail("arguments doesn't begin with the text of a prompt")
	}
	metrics := lmEvalMetrics(r.Raw)
	metric := "metric"
	if i := slices.IndexFunc(metrics, func(name string) bool { return value(r.Raw, name) != nil }); i >= 0 {
		metric = metrics[i]
		r.score(metric) // check that the score is a number
	} else {
		r.fail("metric %w", ErrNoScore)
	}
	id = source.IDText(value(r.Raw, "doc_id"))
	scored, _ := source.At(r.Raw, "filtered_resps.0").Text()
	all := slices.Collect(source.At(r.Raw, "resps.0").Elements())
	for _, answer := range all {
		text, ok := answer.Text()
		if !ok {
			r.fail("resps has likelihoods instead of answers: the task is multiple choice")
		}
		if len(all) > 1 && text != scored {
			lines = append(lines, Line{Err: fmt.Errorf("%s of this answer %w", metric, ErrNoScore)})
			continue
		}
		line := compose.Object(nil).Name(IDKey, id).Set(PromptKey, prompt).Text(OutputKey, text)
		line = line.Set(ScoreKey, value(r.Raw, metric)).Set(MetadataKey, pick(r.Raw, "doc_id", "target", "filter"))
		lines = append(lines, Line{Answer: line.End()})
	}
	if lines == nil {
		r.fail("missing answers in resps")
	}
	return id, lines
}

// lmEvalMetrics returns the names of the metrics that a sample may have, in order of preference.
func lmEvalMetrics(e json.Raw) (names []string) {
	for name := range value(e, "metrics").Elements() {
		if text, ok := name.Text(); ok {
			names = append(names, text)
		}
	}
	return append(names, "exact_match", "acc", "acc_norm", "pass@1", "f1", "em", "rougeL", "bleu")
}
