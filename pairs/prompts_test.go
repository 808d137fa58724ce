package pairs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestPromptsAreNumbered checks that two prompts have the same number if and only if SamePrompt holds, and that numbers
// count up in order of first appearance.
func TestPromptsAreNumbered(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var numbers Prompts
	var seen []*ttc.Prompt
	for range 300 {
		p := &ttc.Prompt{Form: ttc.TextPrompt, Text: fmt.Sprint(random.IntN(9))}
		if random.IntN(3) > 0 {
			p.Form, p.Text = ttc.MessagesPrompt, ""
			for range 1 + random.IntN(2) {
				p.Messages = append(p.Messages, chat.Message{
					Role: "user", Name: fmt.Sprint(random.IntN(2)), Text: fmt.Sprint(random.IntN(2)),
					Parts: []chat.Part{{Text: fmt.Sprint(random.IntN(2))}},
				})
			}
		}
		want := 0
		for want < len(seen) && !SamePrompt(seen[want], p) {
			want++
		}
		if want == len(seen) {
			seen = append(seen, p)
		}
		if got := numbers.Number(p); got != want {
			t.Fatalf("%+v has number %d, want %d", p, got, want)
		}
	}
}

// TestManyPromptsTakeLinearTime checks turns in which each prompt differs a little from the others, or ends with its
// answer.
func TestManyPromptsTakeLinearTime(t *testing.T) {
	var dated, ended []ttc.Candidate
	var turn []int
	for i := range 40_000 {
		turn = append(turn, i)
		dated = append(dated, ttc.Candidate{Output: "a", Prompt: ttc.Prompt{
			Form: ttc.MessagesPrompt, Messages: []chat.Message{
				{Role: "system", Form: chat.Text, Text: fmt.Sprintf("It is %08d now.", i)},
				{Role: "user", Form: chat.Text, Text: "hi"},
			},
		}})
		ended = append(ended, ttc.Candidate{Output: "no", Prompt: ttc.Prompt{Text: "yes or no"}})
	}
	ended[0].Prompt.Text = "yes or maybe"
	from := time.Now()
	if out := Filter(dated, turn, FilterConfig{}).Out; len(out) != len(turn) || out[1].Reason != DifferentPrompt {
		t.Errorf("%d are dropped, the first because %s", len(out), out[1].Reason)
	}
	if kept, _ := Usable(ended, turn, FilterConfig{KeepEndings: true}); len(kept) != 1 {
		t.Errorf("%d answers are kept that their prompts end with", len(kept))
	}
	if took := time.Since(from); took > 30*time.Second {
		t.Errorf("80,000 prompts took %v", took)
	}
}
