package turns

import (
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat/template"
)

// TestTurnsOfStockTemplates finds every assistant message in every render of the oracle's conversations, and compares
// them with the generation markers of the templates that have any: our own text, found in two ways.
func TestTurnsOfStockTemplates(t *testing.T) {
	sources := oracleSources(t)
	var names []string
	for n := range sources {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			r, err := New(sources[name], Settings{})
			if err != nil {
				t.Fatal(err)
			}
			found, lost := 0, 0
			for _, c := range renderCases(t, name) {
				r := r.With(Settings{Vars: c.vars})
				res, err := r.Render(c.conv)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				ts, err := r.Find(c.conv, &res)
				if err != nil {
					lost++
					if !mayLose(name, c.name) {
						t.Errorf("%s: %v", c.name, err)
					}
					continue
				}
				found += len(ts)
				checkTurns(t, r, &c, &res, ts)
				if !AgreesWithMarkers(&res, ts) {
					t.Errorf("%s: the generation markers say something else", c.name)
				}
			}
			t.Logf("%d turns, %d conversations refused", found, lost)
		})
	}
}

// mayLose lists what is rightly refused: templates that leave a message out, join it with others or split it, and
// DeepSeek-V3's calls after a tool's result, which appear where no generation prompt leads.
func mayLose(name, conversation string) bool {
	switch {
	case strings.HasPrefix(name, "diffusion_gemma"):
		return slices.Contains([]string{"tool_call_text", "tool_multi_step", "messy_tool", "consecutive_user"},
			conversation)
	case strings.HasPrefix(name, "deepseekv3"):
		return slices.Contains([]string{"agent_run", "tool_multi_step", "mid_system"}, conversation)
	}
	return false
}

// checkTurns checks that turns are in order and don't overlap, that none contains a byte of another message's field,
// and that each contains all of its own content.
func checkTurns(t *testing.T, r *Renderer, c *renderCase, res *template.Result, ts []Turn) {
	t.Helper()
	at := 0
	for _, turn := range ts {
		if turn.Start < at || turn.Body < turn.Start || turn.End < turn.Body {
			t.Fatalf("%s: %+v after %d", c.name, turn, at)
		}
		at = turn.Body
		if turn.Terminated() {
			ok := false
			for _, term := range r.Terminators() {
				ok = ok || res.Text[turn.Body:turn.End] == term
			}
			if !ok {
				t.Errorf("%s: ends in %q", c.name, res.Text[turn.Body:turn.End])
			}
		}
		for _, s := range res.Spans {
			in := s.Start < turn.Body && s.End > turn.Start
			if in && s.Message != turn.Message {
				t.Errorf("%s: %s of message %d is in the turn of %d", c.name, s.Field, s.Message, turn.Message)
			}
			if s.Message == turn.Message && s.Field == "content" && (s.Start < turn.Start || s.End > turn.Body) {
				t.Errorf("%s: content of %d at %d-%d is outside its turn %+v", c.name, s.Message, s.Start, s.End,
					turn)
			}
			for _, f := range turn.Filler {
				if s.Start < f.End && s.End > f.Start {
					t.Errorf("%s: filler %+v holds %s", c.name, f, s.Field)
				}
			}
		}
	}
}
