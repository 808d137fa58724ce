package host

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/plugins/wire"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// TestAnswerOfSpans checks that a group fails whose records refer to more messages than the limit of its output allows:
// a reference takes a few bytes on the wire, and a conversation in the record log.
func TestAnswerOfSpans(t *testing.T) {
	messages := make([]chat.Message, 50)
	for i := range messages {
		messages[i] = chat.Message{Role: "user", Text: strings.Repeat("x", 1000)}
	}
	g := &ttc.Group{Key: "g", Examples: []*ttc.Example{{Graph: ttc.Chain(messages, ttc.No)}}}
	limit := 60 * int(nodeBytes(&g.Examples[0].Graph.Nodes[0]))
	for name, c := range map[string]struct {
		skips []int
		fails bool
	}{
		"the whole":              {[]int{0}, false},
		"the whole, over again":  {[]int{0, 0, 0, 0}, false},
		"beginnings of all kind": {[]int{0, 1, 2, 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Session{
				plugin: &Plugin{spec: Spec{OutputLimit: limit, OutputSetting: "limits.output"}, secrets: secret.NewValues()}, name: "b",
				builder: BuilderInfo{Kinds: []builders.Kind{builders.KindDemonstration}},
			}
			var r wire.Results
			for _, skip := range c.skips {
				d := &builders.Demonstration{Weight: 1}
				d.Messages.Ref = builders.Ref{Part: builders.NodeSpan, Last: len(messages) - 1, Skip: skip}
				r.Records = append(r.Records, d)
			}
			j := &job{group: g, done: make(chan struct{})}
			s.answer(j, &r, nil)
			<-j.done
			switch got := j.result; {
			case !c.fails && (got.Reason != "" || len(got.Records) != len(c.skips)):
				t.Errorf("%d records, %s: %v", len(got.Records), got.Reason, got.Err)
			case c.fails && (got.Reason != builders.BuilderFailed || len(got.Records) > 0 ||
				!strings.Contains(got.Err.Error(), "limits.output")):
				t.Errorf("%d records, %s: %v", len(got.Records), got.Reason, got.Err)
			}
		})
	}
}
