package published

import (
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// verlRole matches a role on a line of its own. Such lines remain if a chat template's output is decoded without
// special tokens.
var verlRole = regexp.MustCompile(`(?m)^(system|user|assistant|tool)\n`)

// isVerl recognises the entries that verl writes into trainer.rollout_data_dir: inputs and outputs decoded without
// special tokens.
func isVerl(h *source.Head) bool {
	return hasAll(h, "input", "output", "score") && hasAny(h, "gts", "step", "gt", "acc") && h.Texts("input", splits)
}

func splits(input string) bool { return splitRoles(input) != nil }

// splitRoles splits a conversation decoded without special tokens into its messages. A line that contains only the name
// of a role begins a message. splitRoles returns nil unless the text begins with such a line and ends with another one,
// the assistant's.
func splitRoles(input string) json.Raw {
	body := strings.TrimRight(input, "\n") + "\n"
	at := verlRole.FindAllStringSubmatchIndex(body, -1)
	if len(at) < 2 || at[0][0] != 0 || body[at[len(at)-1][2]:] != "assistant\n" {
		return nil
	}
	var m messages
	for i, mark := range at[:len(at)-1] {
		m = m.add(body[mark[2]:mark[3]], strings.TrimSuffix(body[mark[1]:at[i+1][0]], "\n"))
	}
	return m.end()
}

// verl reads an entry of a rollout dump.
func verl(e json.Raw) (string, []Line, error) {
	texts, err := texts(e, "input", "output")
	if err != nil {
		return "", nil, err
	}
	input, output := texts[0].text, texts[1].text
	prompt := splitRoles(input)
	if prompt == nil {
		return "", nil, errors.New("expected each role in input on a separate line, and assistant on the last line")
	}
	if _, err := scoreOf(e, "score"); err != nil {
		return "", nil, err
	}
	id := input
	if step := source.IDText(value(e, "step")); step != "" { // rollouts of other steps come from another policy
		id = step + " " + input
	}
	sum := xxh3.HashString128(id).Bytes()
	id = hex.EncodeToString(sum[:12])
	line := object(nil).name(IDKey, id).name(TaskKey, id).name(TurnKey, "rollout").set(PromptKey, prompt)
	line = line.text(OutputKey, output).set(ScoreKey, value(e, "score")).set(MetadataKey, pick(e, "step", "gts", "acc"))
	return id, []Line{{Answer: line.end()}}, nil
}

// isLMEval recognises the samples that lm-evaluation-harness writes with --log_samples.
func isLMEval(h *source.Head) bool {
	return hasAll(h, "doc_id", "doc", "resps") && hasAny(h, "arguments", "target", "filtered_resps")
}

// lmEval reads a sample. Its answers are the model's output before any filters. If a sample has several, its score is
// of the answer that the filter chose (lm_eval/filters/selection.py), and the others have none.
func lmEval(e json.Raw) (string, []Line, error) {
	prompt, ok := source.At(e, "arguments.gen_args_0.arg_0")
	if !ok {
		prompt, ok = source.At(e, "arguments.0.0")
	}
	if !ok || prompt.Kind() != json.String {
		return "", nil, errors.New("arguments doesn't begin with the text of a prompt")
	}
	metric := "metric"
	var score json.Raw
	for _, name := range lmEvalMetrics(e) {
		if score = value(e, name); score != nil {
			metric = name
			break
		}
	}
	if score == nil {
		return "", nil, fmt.Errorf("%s %w", metric, ErrNoScore)
	}
	if _, err := number(score); err != nil {
		return "", nil, fmt.Errorf("%s is %w", metric, err)
	}
	id := source.IDText(value(e, "doc_id"))
	var lines []Line
	first, _ := source.At(e, "resps.0")
	chosen, _ := source.At(e, "filtered_resps.0")
	scored, _ := chosen.Text()
	all := slices.Collect(first.Elements())
	for _, answer := range all {
		text, ok := answer.Text()
		if !ok {
			return "", nil, errors.New("resps has likelihoods instead of answers: the task is multiple choice")
		}
		if len(all) > 1 && text != scored {
			lines = append(lines, Line{Err: fmt.Errorf("%s of this answer %w", metric, ErrNoScore)})
			continue
		}
		line := object(nil).name(IDKey, id).set(PromptKey, prompt).text(OutputKey, text).set(ScoreKey, score)
		lines = append(lines, Line{Answer: line.set(MetadataKey, pick(e, "doc_id", "target", "filter")).end()})
	}
	if lines == nil {
		return "", nil, errors.New("missing answers in resps")
	}
	return id, lines, nil
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
