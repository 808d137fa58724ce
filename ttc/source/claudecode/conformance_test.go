package claudecode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders/schema"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
	"github.com/nat-go/nat-go/ttc/ledger"
	"github.com/nat-go/nat-go/ttc/source"
)

type result struct {
	examples []*ttc.Example
	drops    []ledger.Drop
	stats    source.Stats
}

func read(t testing.TB, paths ...string) (r result) {
	t.Helper()
	cfg := schema.New[Config]()
	cfg.Path = paths
	s, err := Open(context.Background(), cfg, source.Options{Drop: func(d ledger.Drop) { r.drops = append(r.drops, d) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		ex, _, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			r.stats = *s.Stats()
			return r
		}
		if err != nil {
			t.Fatal(err)
		}
		r.examples = append(r.examples, ex)
	}
}

func fixture(t *testing.T) string {
	dir := os.Getenv("NATGO_CONFORMANCE")
	if dir == "" {
		t.Skip("NATGO_CONFORMANCE names no folder with recorded sessions")
	}
	return filepath.Join(dir, "readers", "claude_code")
}

func dump(g *ttc.Graph) string {
	var b strings.Builder
	for i, n := range g.Nodes {
		m := n.Message
		e := ""
		if n.Error != nil {
			e = fmt.Sprint(*n.Error)
		}
		fmt.Fprintf(&b, "%d<-%d %s %s%d %q", i, n.Parent, m.Role, e, n.Sampled, short(m))
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, " %s(%s)", c.Name, c.Arguments)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func short(m chat.Message) string {
	if len(m.Text) > 150 {
		return m.Text[:80] + "..." + m.Text[len(m.Text)-60:]
	}
	return m.Text
}

func TestX(t *testing.T) {
	r := read(t, fixture(t))
	for _, ex := range r.examples {
		t.Log(ex.ID, ex.Fidelity, len(ex.Tools), "\n", dump(&ex.Graph))
	}
	t.Log(r.drops, r.stats)
	b, _ := os.ReadFile(fixture(t) + "/projects/-home-user-project/9ddb4416-7c4b-4b19-a43f-c1019fc41cb9.jsonl")
	var keep []string
	for _, l := range strings.Split(string(b), "\n") {
		if !strings.HasPrefix(l, `{"type":"api-request`) {
			keep = append(keep, l)
		}
	}
	p := t.TempDir() + "/a.jsonl"
	os.WriteFile(p, []byte(strings.Join(keep, "\n")), 0o600)
	r = read(t, p)
	for _, ex := range r.examples {
		t.Log(ex.ID, ex.Fidelity, len(ex.Tools), "\n", dump(&ex.Graph))
	}
	t.Log(r.drops, r.stats)
}
