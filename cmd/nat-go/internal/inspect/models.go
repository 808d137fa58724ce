package inspect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/dataset"
	"github.com/nat-go/nat-go/collator"
	"github.com/nat-go/nat-go/collator/tokenizer"
	"github.com/nat-go/nat-go/collator/turns"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// file is the name of the file that marks a tokenizer's folder.
const file = "tokenizer.json"

// cachedTokenizer returns the folder of a model's tokenizer in Hugging Face's cache, or "" if it isn't there. model is
// "owner/name".
func cachedTokenizer(model string) string {
	folder := "models--" + strings.ReplaceAll(model, "/", "--")
	return lastFolder(filepath.Join(cache(), dataset.Literal(folder), "snapshots", "*", file))
}

// maxNear is the maximum number of tokenizers that near lists.
const maxNear = 5

// near lists folders with a tokenizer. It searches the given folders, the folders one level below them, and the named
// models' folders in Hugging Face's cache. A model named without its owner matches any owner.
func near(folders, names []string) (found []string) {
	add := func(dir string) {
		if dir != "" && len(found) < maxNear && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	for _, dir := range folders {
		for _, pattern := range []string{file, filepath.Join("*", file)} {
			for _, path := range matches(filepath.Join(dataset.Literal(dir), pattern)) {
				add(filepath.Dir(path))
			}
		}
	}
	for _, name := range names {
		if strings.Contains(name, "/") {
			add(cachedTokenizer(name))
			continue
		}
		add(lastFolder(filepath.Join(cache(), "models--*--"+dataset.Literal(name), "snapshots", "*", file)))
	}
	return found
}

func cache() string {
	home := os.Getenv("HF_HOME")
	if home == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		home = filepath.Join(user, ".cache", "huggingface")
	}
	return filepath.Join(dataset.Literal(home), "hub")
}

// lastFolder returns the folder of the match that sorts last, or "" if nothing matches.
func lastFolder(pattern string) string {
	found := matches(pattern)
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.Max(found))
}

func matches(pattern string) []string {
	found, _ := filepath.Glob(pattern) // ignore the error, because a malformed pattern has no match
	return found
}

// LeftOut describes the content that a chat template on this machine omits from the examples. Token batches and the
// input of trainers that use the template also lack it.
type LeftOut struct {
	Model   string   `json:"model"`             // folder of the model's tokenizer
	What    []string `json:"what,omitempty"`    // omitted content, such as "the reasoning of 3 turns"
	Problem string   `json:"problem,omitempty"` // reason why the template can't be used
}

// String describes the omitted content in words.
func (l LeftOut) String() string {
	if l.Problem != "" {
		return fmt.Sprintf("the template of %s can't be used: %s", l.Model, l.Problem)
	}
	return fmt.Sprintf("the template of %s omits %s; collator.template can specify another", l.Model, strings.Join(l.What, ", "))
}

// leftOut tries the templates of the tokenizers, and lists the templates that omit content or can't be used.
func (r *Report) leftOut() (all []LeftOut) {
	if r.Messages == 0 && r.Candidates == 0 {
		return nil
	}
	for _, dir := range r.Tokenizers {
		l := LeftOut{Model: dir}
		if rep, err := tryTemplate(dir); err != nil {
			l.Problem = err.Error()
		} else {
			l.What = r.missing(rep)
		}
		if l.What != nil || l.Problem != "" {
			all = append(all, l)
		}
	}
	return all
}

// tryTemplate probes the chat template in a model's folder.
func tryTemplate(dir string) (*turns.Report, error) {
	c, err := tokenizer.ReadConfig(dir)
	if err != nil {
		return nil, err
	}
	text, err := collator.TemplateText(c, "")
	if err == nil && text == collator.PlainTemplate {
		err = errors.New("tokenizer has no chat template: " + collator.PlainAdvice)
	}
	if err != nil {
		return nil, err
	}
	return turns.Probe(text, turns.Settings{Vars: collator.TemplateVars(c, nil)})
}

// missing lists the content of the examples that a template omits.
func (r *Report) missing(t *turns.Report) (what []string) {
	if r.WithTools > 0 && !t.ToolsShown {
		what = append(what, "the tools of "+quantity(r.WithTools, "example"))
	}
	if r.ToolCalls > 0 && t.Calls != turns.Kept {
		what = append(what, quantity(r.ToolCalls, "tool call"))
	}
	switch {
	case r.Reasoning > 0 && !t.Reasoning.Last:
		what = append(what, "the reasoning of "+quantity(r.Reasoning, "turn"))
	case r.ReasoningPast > 0 && !t.Reasoning.History:
		what = append(what, "the reasoning of "+quantity(r.ReasoningPast, "turn")+" before the last question")
	}
	return what
}

// bytesPerToken is a low estimate of the mean token size in prose, code and JSON with today's tokenizers. Token
// counts estimated with it are usually too high, so that a max_length based on them fits every row.
const bytesPerToken = 3

// usualLength is the default of collator.max_length.
const usualLength = 4096

// estimate returns the approximate number of tokens in the longest branch of an example, including its tools.
func estimate(ex *ttc.Example) int {
	tools := 0
	for _, t := range ex.Tools {
		tools += len(t.Raw)
	}
	longest, bytes := 0, make([]int, len(ex.Graph.Nodes))
	for i := range ex.Graph.Nodes {
		n := &ex.Graph.Nodes[i]
		if bytes[i] = textBytes(&n.Message); n.Parent >= 0 {
			bytes[i] += bytes[n.Parent]
		}
		longest = max(longest, bytes[i])
	}
	return (longest + tools) / bytesPerToken
}

// textBytes returns the size of a message's text.
func textBytes(m *chat.Message) int {
	n := len(m.Role) + len(m.Text) + len(m.Reasoning)
	for _, p := range m.Parts {
		n += len(p.Text)
	}
	for i := range m.ToolCalls {
		n += len(m.ToolCalls[i].Name) + len(m.ToolCalls[i].Arguments)
	}
	return n
}

// carrying returns a max_length that fits every conversation. It returns 0 if the default max_length is long enough or
// if no conversations were read.
func (r *Report) carrying() int {
	if r.Sizes == nil || r.Sizes.Max <= usualLength {
		return 0
	}
	return (r.Sizes.Max + 1023) / 1024 * 1024
}
