package plugins

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// Print writes a builder's results for a group as JSON lines, with references resolved.
func Print(w io.Writer, r host.Result) error {
	out := printer{w, r.Group}
	for _, rec := range r.Records {
		if err := out.record(rec); err != nil {
			return err
		}
	}
	for _, d := range r.Drops {
		if err := PrintDrop(w, d); err != nil {
			return err
		}
	}
	for _, c := range r.Counts {
		if err := out.print(map[string]any{"count": c.Name, "n": c.N}); err != nil {
			return err
		}
	}
	return nil
}

// Refused returns the reason why a run would drop a record that a builder made from a group, or "" if it would not.
func Refused(g *ttc.Group, rec builders.Record) (reason ledger.Reason, detail string) {
	r, err := builders.ResolveRecord(g, rec)
	if err != nil {
		return builders.BadReference, "it " + err.Error()
	}
	return curate.Gate(r)
}

// PrintDrop writes a drop as a JSON line.
func PrintDrop(w io.Writer, d ledger.Drop) error {
	return printer{w: w}.print(map[string]any{"drop": d})
}

// printer writes a builder's records, with references resolved.
type printer struct {
	w io.Writer
	g *ttc.Group
}

func (p printer) record(r builders.Record) error {
	h := r.Header()
	out := map[string]any{"kind": r.Kind().String(), "example": h.Example}
	if reason, detail := Refused(p.g, r); reason != "" {
		out["dropped"] = map[string]any{"stage": ledger.Gate, "reason": reason, "detail": detail}
	}
	if h.Turn != "" {
		out["turn"] = h.Turn
	}
	if h.Metadata != nil {
		out["metadata"] = json.RawMessage(h.Metadata)
	}
	switch r := r.(type) {
	case *builders.Preference:
		out["prompt"], out["chosen"], out["rejected"], out["reward"] = p.show(r.Prompt), p.show(r.Chosen),
			p.show(r.Rejected), r.Reward
	case *builders.Demonstration:
		out["messages"], out["weight"] = p.show(r.Messages), r.Weight
	case *builders.Rollout:
		out["messages"], out["reward"] = p.show(r.Messages), r.Reward
	case *builders.State:
		out["messages"] = p.show(r.Messages)
	case *builders.Distillation:
		out["messages"], out["sites"] = p.show(r.Messages), r.Sites
	}
	return p.print(out)
}

// show returns a passage's text, or its messages with their roles and content.
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

func (p printer) print(v any) error {
	b, err := json.Marshal(v)
	if err != nil { // a score is NaN
		b = []byte(fmt.Sprintf("%q", fmt.Sprintf("%+v", v)))
	}
	_, err = p.w.Write(append(b, '\n'))
	return err
}
