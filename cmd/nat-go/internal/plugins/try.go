package plugins

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/finding"
	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/config"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/internal/lists"
	"github.com/nat-go/nat-go/plugins/host"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/group"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// Print writes a builder's results for a group as JSON lines, with references resolved. It resolves one record at a
// time, because all records with their preceding messages can take gigabytes.
func Print(w io.Writer, r host.Result) error {
	for _, rec := range r.Records {
		if err := printLine(w, resolved(r.Group, rec)); err != nil {
			return err
		}
	}
	if err := PrintDrops(w, r.Drops); err != nil {
		return err
	}
	return lists.Each(r.Counts, func(c host.Count) error {
		return printLine(w, map[string]any{"count": c.Name, "n": c.N})
	})
}

// Refused returns the reason why a run would drop a record that a builder made from a group, or "" if it would not.
func Refused(g *ttc.Group, rec builders.Record) (reason ledger.Reason, detail string) {
	r, err := builders.ResolveRecord(g, rec)
	if err != nil {
		return builders.BadReference, "it " + err.Error()
	}
	return curate.Gate(r)
}

// PrintDrops writes drops as JSON lines.
func PrintDrops(w io.Writer, drops []ledger.Drop) error {
	return lists.Each(drops, func(d ledger.Drop) error { return printLine(w, map[string]any{"drop": d}) })
}

// resolved returns a builder's record, with references resolved.
func resolved(g *ttc.Group, r builders.Record) map[string]any {
	h := r.Header()
	out := map[string]any{"kind": r.Kind().String(), "example": h.Example}
	if reason, detail := Refused(g, r); reason != "" {
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
		out["prompt"], out["chosen"], out["rejected"] = show(g, r.Prompt), show(g, r.Chosen), show(g, r.Rejected)
		out["reward"] = r.Reward
	case *builders.Demonstration:
		out["messages"], out["weight"] = show(g, r.Messages), r.Weight
	case *builders.Rollout:
		out["messages"], out["reward"] = show(g, r.Messages), r.Reward
	case *builders.State:
		out["messages"] = show(g, r.Messages)
	case *builders.Distillation:
		out["messages"], out["sites"] = show(g, r.Messages), r.Sites
	}
	return out
}

// show returns a passage's text, or its messages with their roles and content.
func show(g *ttc.Group, c builders.Content) any {
	passage, err := builders.Resolve(g, c)
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

func printLine(w io.Writer, v map[string]any) error {
	b, err := json.Marshal(v)
	if err != nil { // JSON can't represent a score of NaN
		b = fmt.Appendf(nil, "%q", fmt.Sprintf("%+v", v))
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Groups reads up to limit examples from a file (0 means all) as `nat-go run` does, with the same sources and their
// defaults, and groups them as a builder requires. It also returns the source's drops.
func Groups(
	ctx context.Context, sources []source.Factory, path string, info host.BuilderInfo, limit int,
) (groups []*ttc.Group, drops []ledger.Drop, err error) {
	h, err := readers.ReadHead(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	found, err := readers.Choose(sources, "", h)
	if err != nil {
		return nil, nil, err
	}
	config := found.Source.New()
	schema.Defaults(config)
	s, err := found.Source.Open(ctx, config, path, source.Options{
		Raw: info.RawSteps, Drop: func(d ledger.Drop) { drops = append(drops, d) },
	})
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	by := group.Task
	if info.Unit == builders.UnitRun {
		by = group.Run
	}
	index, err := group.New(host.NewExampleCodec(), group.Options{By: by})
	if err != nil {
		return nil, nil, err
	}
	defer index.Close()
	for n := 0; limit == 0 || n < limit; n++ {
		ex, _, err := s.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if info.Unit == builders.UnitExample {
			groups = append(groups, &ttc.Group{Key: ex.ID, Examples: []*ttc.Example{ex}})
		} else if err := index.Add(ex); err != nil {
			return nil, nil, err
		}
	}
	for g, err := range index.Groups(0) {
		if err != nil {
			return nil, nil, err
		}
		if g.Refused == nil {
			groups = append(groups, g.Group)
		}
	}
	return groups, drops, nil
}

// Findings adds codes to what a builder or plugin found in a builder's settings. Their pointers are relative to the
// builder's block.
func Findings(fs []finding.Finding) []finding.Finding {
	for i := range fs {
		fs[i].Code = cmp.Or(fs[i].Code, config.CodeRefused)
	}
	return fs
}
