package claudecode

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/property"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/session"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

// drawnLine draws a line whose parent is any other line, even a later one, or none.
func drawnLine(t *rapid.T, i, n int) string {
	parent := i - 1
	if rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0 {
		parent = rapid.IntRange(-1, n).Draw(t, "parent")
	}
	id := rapid.IntRange(0, 5).Draw(t, "id")
	more := map[int]string{
		0: fmt.Sprintf(`"type":"user","message":{"content":"u%d"}`, id),
		1: fmt.Sprintf(`"type":"assistant","message":{"id":"m%d","content":[{"type":"text","text":"t%d"}]}`, id, i),
		2: fmt.Sprintf(`"type":"assistant","message":{"id":"m%d","content":[{"type":"tool_use","id":"c%d","name":"f",`+
			`"input":{}}]}`, id, id),
		3: fmt.Sprintf(`"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c%d",`+
			`"content":"r%d"}]}`, id, i),
		4: fmt.Sprintf(`"type":"attachment","attachment":{"type":"queued_command","prompt":"p%d"}`, id),
		5: fmt.Sprintf(`"type":"system","subtype":"compact_boundary","compactMetadata":{"preservedMessages":`+
			`{"anchorUuid":"l%d","uuids":["l%d"]}}`, rapid.IntRange(0, n).Draw(t, "anchor"), id),
	}[rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3, 3, 4, 5}).Draw(t, "type")]
	return fmt.Sprintf(`{"uuid":"l%d","parentUuid":"l%d","sessionId":"s",%s}`, i, parent, more)
}

// TestContinuedHistory: whatever the parents are, an answer that continues from the history of the one before has the
// history given by its own chain of parents.
func TestContinuedHistory(t *testing.T) {
	property.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(rt, "lines")
		tr := newTranscript("s", session.Limits{}, &source.Tally{})
		tr.begin("x")
		for i := range n {
			raw, err := json.Parse([]byte(drawnLine(rt, i, n)), json.Limits{})
			if err != nil {
				rt.Fatal(err)
			}
			tr.add(session.Line{JSON: raw})
		}
		tr.calls()
		clear(tr.histories)
		for _, a := range tr.answers {
			on := tr.historyOf(a, 0).end()
			kept := tr.histories
			tr.histories = map[historyKey]*history{}
			if alone := tr.historyOf(a, 0).end(); alone != on {
				rt.Fatalf("answer %s:\n%v\nwant\n%v", a.id, texts(tr.out, on), texts(tr.out, alone))
			}
			tr.histories = kept
		}
	})
}

func texts(s *calls.Session, w calls.Walk) (out []string) {
	for r, before, ok := s.Last(w); ok; r, before, ok = s.Last(before) {
		m := s.At(r)
		out = append(out, m.Role+" "+m.Text)
	}
	return out
}

// TestLongSession: what is allocated for a session grows linearly with its turns, not quadratically; the same holds
// with logged requests, each of which continues from the one before.
func TestLongSession(t *testing.T) {
	for name, turn := range map[string]func(b *strings.Builder, i int){
		"chains of parents": func(b *strings.Builder, i int) {
			fmt.Fprintf(b, `{"type":"user","uuid":"u%d","parentUuid":"a%d","message":{"content":"q%d"}}`+"\n",
				i, i-1, i)
			fmt.Fprintf(b, `{"type":"assistant","uuid":"a%d","parentUuid":"u%d","message":{"id":"m%d","content":[`+
				`{"type":"text","text":"t%d"}]}}`+"\n", i, i, i, i)
		},
		"logged requests": func(b *strings.Builder, i int) {
			fmt.Fprintf(b, `{"type":"api-request-blob","hash":"h%d","message":{"role":"user","content":"q%d"}}`+"\n",
				i, i)
			base := ""
			if i > 0 {
				base = fmt.Sprintf(`,"base":"r%d","keep":%d`, i-1, i)
			} else {
				b.WriteString(`{"type":"api-request-shape","shapeHash":"s","shape":{"system":"s"}}` + "\n")
			}
			fmt.Fprintf(b, `{"type":"api-request","id":"r%d","shapeHash":"s"%s,"tail":["h%d"]}`+"\n", i, base, i)
			fmt.Fprintf(b, `{"type":"assistant","uuid":"a%d","requestRef":"r%d","message":{"id":"m%d","content":[`+
				`{"type":"text","text":"t%d"}]}}`+"\n", i, i, i, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocated := func(turns int) uint64 {
				var b strings.Builder
				for i := range turns {
					turn(&b, i)
				}
				tr := newTranscript("s", session.Limits{}, &source.Tally{})
				tr.begin("x")
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
					raw, err := json.Parse([]byte(l), json.Limits{})
					if err != nil {
						t.Fatal(err)
					}
					tr.add(session.Line{JSON: raw})
				}
				tr.calls()
				if ex := tr.out.Examples(nil); len(ex) != 1 || ex[0].Trained != int64(turns) {
					t.Fatalf("%s: %d examples", name, len(ex))
				}
				runtime.ReadMemStats(&after)
				return after.TotalAlloc - before.TotalAlloc
			}
			if few, many := allocated(500), allocated(4000); many > 12*few {
				t.Errorf("%s: 500 turns allocate %d bytes, 4,000 allocate %d", name, few, many)
			}
		})
	}
}
