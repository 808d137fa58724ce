package sdk

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// try runs a builder over the groups in a file and prints what it makes of them, as JSON lines.
func (p *Plugin) try(stdout, stderr io.Writer, args []string) error {
	flags := flag.NewFlagSet("try", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("builder", "", "the builder")
	config := flags.String("config", "{}", "its config, as JSON or YAML")
	var files []string
	for len(args) > 0 { // flags may come after the file
		if err := flags.Parse(args); err != nil {
			return err
		}
		if args = flags.Args(); len(args) > 0 {
			files, args = append(files, args[0]), args[1:]
		}
	}
	if len(files) != 1 {
		return fmt.Errorf("try needs one file; it got %d", len(files))
	}
	f, err := p.pick(*name)
	if err != nil {
		return err
	}
	b, found := f.Open([]byte(*config))
	if err := finding.Text(stderr, found, false); err != nil {
		return err
	}
	if b == nil {
		return errors.New("the config is not right")
	}
	in, err := os.Open(files[0])
	if err != nil {
		return err
	}
	defer in.Close()
	groups, err := ReadGroups(in, f.info.Unit)
	if err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	for _, g := range groups {
		if err := b.Build(context.Background(), g, printer{stdout, g}); err != nil {
			fmt.Fprintf(stderr, "group %q failed: %v\n", g.Key, err)
		}
	}
	return nil
}

// ReadGroups reads groups for trying a builder, from JSON lines of two shapes. A line with messages is an example: id, task,
// messages (OpenAI chat format), reward. A line without is a candidate: id, turn_id, candidate_index, prompt (a text or
// messages), output, score, metadata; lines that follow each other with one id are one example. Examples that follow each
// other with one task are a group where the unit is task; where it is run, all are.
func ReadGroups(r io.Reader, unit builders.Unit) ([]*ttc.Group, error) {
	lines := json.NewReader(r, json.Auto, json.Limits{})
	var groups []*ttc.Group
	var last *ttc.Example
	for n := 1; ; n++ {
		raw, _, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return groups, nil
		}
		if err != nil {
			return nil, err
		}
		raw = append(json.Raw(nil), raw...)
		id, ok := text(raw, "id")
		if !ok {
			return nil, fmt.Errorf("entry %d has no id", n)
		}
		messages, isTrace := raw.Get("messages")
		if isTrace || last == nil || last.ID != id {
			task, _ := text(raw, "task")
			ex := &ttc.Example{ID: id, Task: task, Row: int64(n - 1), Fidelity: ttc.TextOnly}
			if reward, ok := number(raw, "reward"); ok {
				ex.Reward = &reward
			}
			sameTask := last != nil && task != "" && last.Task == task
			if len(groups) == 0 || unit == builders.UnitExample || unit == builders.UnitTask && !sameTask {
				groups = append(groups, &ttc.Group{Key: groupKey(ex, unit)})
			}
			g := groups[len(groups)-1]
			g.Examples = append(g.Examples, ex)
			last = ex
		}
		if isTrace {
			ms, err := chat.ParseMessages(messages)
			if err != nil {
				return nil, fmt.Errorf("entry %d: %w", n, err)
			}
			last.Graph = ttc.Chain(ms, ttc.Assumed)
			continue
		}
		c, err := candidate(raw)
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", n, err)
		}
		last.Candidates = append(last.Candidates, c)
	}
}

func groupKey(ex *ttc.Example, unit builders.Unit) string {
	switch {
	case unit == builders.UnitRun:
		return "run"
	case unit == builders.UnitTask && ex.Task != "":
		return ex.Task
	}
	return ex.ID
}

func candidate(raw json.Raw) (ttc.Candidate, error) {
	var c ttc.Candidate
	c.Turn, _ = text(raw, "turn_id")
	c.Step, _ = text(raw, "name")
	if v, ok := raw.Get("candidate_index"); ok {
		c.Index, _ = v.Int64()
	}
	var ok bool
	if c.Output, ok = text(raw, "output"); !ok {
		return c, errors.New("a candidate needs an output, and an example messages")
	}
	if c.Score, ok = number(raw, "score"); !ok {
		return c, errors.New("a candidate needs a score")
	}
	c.Metadata, _ = raw.Get("metadata")
	prompt, _ := raw.Get("prompt")
	if prompt.Kind() == json.Array {
		ms, err := chat.ParseMessages(prompt)
		c.Prompt = ttc.Prompt{Form: ttc.MessagesPrompt, Messages: ms}
		return c, err
	}
	c.Prompt.Text, _ = prompt.Text()
	return c, nil
}

func text(raw json.Raw, key string) (string, bool) {
	v, _ := raw.Get(key)
	if v.Kind() == json.Number {
		return string(v), true
	}
	return v.Text()
}

func number(raw json.Raw, key string) (float64, bool) {
	v, _ := raw.Get(key)
	return v.Float64()
}

// Printer writes what a builder emits of a group as JSON lines, references resolved.
func Printer(w io.Writer, g *ttc.Group) builders.Output { return printer{w, g} }

// printer writes what a builder emits, references resolved.
type printer struct {
	w io.Writer
	g *ttc.Group
}

func (p printer) Record(r builders.Record) error {
	h := r.Header()
	out := map[string]any{"kind": r.Kind().String(), "example": h.Example}
	if h.Turn != "" {
		out["turn"] = h.Turn
	}
	if h.Metadata != nil {
		out["metadata"] = stdjson.RawMessage(h.Metadata)
	}
	switch r := r.(type) {
	case *builders.Preference:
		out["prompt"], out["chosen"], out["rejected"], out["reward"] = p.show(r.Prompt), p.show(r.Chosen), p.show(r.Rejected), r.Reward
	case *builders.Demonstration:
		out["messages"], out["weight"] = p.show(r.Messages), r.Weight
	case *builders.Rollout:
		out["messages"], out["reward"] = p.show(r.Messages), r.Reward
	case *builders.Distillation:
		out["messages"], out["sites"] = p.show(r.Messages), r.Sites
	}
	return p.print(out)
}

// show is content as people read it.
func (p printer) show(c builders.Content) any {
	passage, err := builders.Resolve(p.g, c)
	if err != nil {
		return "bad reference: it " + err.Error()
	}
	if passage.IsText() {
		return passage.Text
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	out := []message{}
	for _, n := range passage.Nodes {
		out = append(out, message{n.Message.Role, n.Message.Text})
	}
	return out
}

func (p printer) Drop(d ledger.Drop) error { return p.print(map[string]any{"drop": d}) }

func (p printer) Count(name string, n int64) error {
	return p.print(map[string]any{"count": name, "n": n})
}

func (p printer) print(v any) error {
	b, err := stdjson.Marshal(v)
	if err != nil { // NaN in a score
		b = []byte(fmt.Sprintf("%q", fmt.Sprintf("%+v", v)))
	}
	_, err = p.w.Write(append(b, '\n'))
	return err
}
