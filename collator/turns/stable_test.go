package turns

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/chat/template"
	"github.com/nat-go/nat-go/ttc/json"
)

// stableAlone is Stable by renders of the two heads alone.
func stableAlone(t *testing.T, r *Renderer, c *Conversation, res *template.Result, turn *Turn) (bool, error) {
	t.Helper()
	given, err := r.Render(c.head(turn.Message, true))
	if err != nil {
		return false, err
	}
	if r.cuts {
		d := r.dialectFor(c)
		if given.Text+d.header == res.Text[:turn.Start] && r.promptAt(d, c, turn.Message, given.Text) == len(given.Text) {
			given.Text += d.header
		}
		if turn.Start < len(given.Text) && turn.Start >= r.promptAt(d, c, turn.Message, given.Text) {
			given.Text = given.Text[:turn.Start]
		}
	}
	if len(given.Text) != turn.Start || !strings.HasPrefix(res.Text, given.Text) {
		return false, nil
	}
	if turn.Message == len(c.Messages)-1 && !c.Open {
		return true, nil
	}
	then, err := r.Render(c.head(turn.Message+1, false))
	if err != nil {
		return false, err
	}
	return strings.HasPrefix(res.Text, then.Text) ||
		len(then.Text) >= turn.End && then.Text[:turn.End] == res.Text[:turn.End], nil
}

// oddTalks are conversations that templates treat in special ways.
func oddTalks(t *testing.T) (out []*Conversation) {
	t.Helper()
	const call = `"tool_calls":[{"id":"call00001","type":"function","function":{"name":"f","arguments":{"a":1}}}]`
	for _, raw := range []string{
		`[{"role":"user","content":"q"},{"role":"assistant","content":"<think>\nt\n</think>\n\nx"},{"role":"user","content":"r"},{"role":"assistant","content":" y ","reasoning_content":"z"}]`,
		`[{"role":"user","content":"q"},{"role":"assistant","content":"",` + call + `},{"role":"tool","content":"1"},{"role":"tool","content":"2"},{"role":"assistant","content":"<|im_end|>"},{"role":"assistant","content":"b"}]`,
		`[{"role":"system","content":"s"},{"role":"assistant","content":"a"},{"role":"assistant","content":"","reasoning_content":"t",` + call + `},{"role":"tool","content":""},{"role":"assistant","content":"",` + call + `},{"role":"tool","content":"<tool_response>"},{"role":"assistant","content":"e"},{"role":"user","content":""},{"role":"assistant","content":""}]`,
		`[{"role":"user","content":"q"},{"role":"system","content":"mid"},{"role":"assistant","content":"a","tool_calls":[]},{"role":"user","content":"r"},{"role":"user","content":"r2"},{"role":"assistant","content":"\n\nb\n"},{"role":"user","content":"/no_think"},{"role":"assistant","content":"c"}]`,
	} {
		ms, err := template.ParseMessages(json.Raw(raw))
		if err != nil {
			t.Fatal(err)
		}
		tools, err := template.ParseTools(json.Raw(tool))
		if err != nil {
			t.Fatal(err)
		}
		for i := range ms {
			ms[i] = template.AliasReasoning(ms[i])
		}
		out = append(out, &Conversation{Messages: ms}, &Conversation{Messages: ms, Tools: tools},
			&Conversation{Messages: ms, Tools: tools, Open: true})
	}
	return out
}

// TestStableByHeads: the heads made along with a conversation give the same verdicts as renders of their own, for the
// templates of models, with every renderer.
func TestStableByHeads(t *testing.T) {
	sources := oracleSources(t)
	verdicts := map[bool]int{}
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		r, err := New(sources[name], Settings{})
		if err != nil {
			t.Fatal(err)
		}
		talks := oddTalks(t)
		for _, k := range renderCases(t, name) {
			talks = append(talks, k.conv)
		}
		renderers := []*Renderer{r, r.Cut()}
		if s := r.Silent(); s != nil {
			renderers = append(renderers, s)
		}
		for _, r := range renderers {
			for i, c := range talks {
				res, err := r.RenderTurns(c)
				if err != nil {
					continue
				}
				found, _ := r.FindEach(c, &res)
				whole := res
				r.Stop(c, &res, found)
				for k := range found {
					for _, shown := range []*template.Result{&res, &whole} {
						if found[k].End > len(shown.Text) {
							continue
						}
						got, err1 := r.Stable(c, shown, &found[k])
						want, err2 := stableAlone(t, r, c, shown, &found[k])
						if got != want || (err1 == nil) != (err2 == nil) {
							t.Errorf("%s, conversation %d, message %d: %v %v, alone %v %v", name, i, found[k].Message, got,
								err1, want, err2)
						}
						verdicts[got]++
					}
				}
			}
		}
	}
	t.Log(verdicts)
	if verdicts[true] < 1000 || verdicts[false] < 100 {
		t.Errorf("too few verdicts: %v", verdicts)
	}
}
