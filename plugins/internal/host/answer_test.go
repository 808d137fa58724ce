package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/secret"
	"github.com/nat-go/nat-go/plugins/internal/wire"
)

// TestAnswerOfSpans checks that a group fails whose records refer to more messages than the limit of its output allows:
// a reference takes a few bytes on the wire, and a conversation in the record log.
func TestAnswerOfSpans(t *testing.T) {
	const messages = 50
	g := chainOf(messages)
	limit := 60 * int(nodeBytes(&g.Examples[0].Graph.Nodes[0]))
	for name, c := range map[string]struct {
		skips []int
		fails bool
	}{
		"the whole":                          {[]int{0}, false},
		"the whole conversation, repeatedly": {[]int{0, 0, 0, 0}, false},
		"beginnings of all kinds":            {[]int{0, 1, 2, 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Session{
				plugin: &Plugin{
					spec: Spec{OutputLimit: limit, OutputSetting: "limits.output"}, secrets: secret.NewValues(),
				},
				name:    "b",
				builder: BuilderInfo{Kinds: []builders.Kind{builders.KindDemonstration}},
			}
			var r wire.Results
			for _, skip := range c.skips {
				d := &builders.Demonstration{Weight: 1}
				d.Messages.Ref = builders.Ref{Part: builders.NodeSpan, Last: messages - 1, Skip: skip}
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

// TestLockstepKeepsToItsRoom checks that a worker that has an instance to itself gets no further group while too many
// results wait to be consumed, and continues once they are. It must not block meanwhile, because the consumer of the
// results may be waiting for the instance.
func TestLockstepKeepsToItsRoom(t *testing.T) {
	w := &worker{taken: make(chan struct{}, 1)}
	a := &attempt{worker: w, lockstep: true, backlog: &[]*job{{number: 1}}}
	w.heldBack.Store(heldLimit + 1)
	if j, more, err := a.next(nil, nil); j != nil || !more || err != nil {
		t.Errorf("it was given %+v, more: %t, %v", j, more, err)
	}
	waited := make(chan bool)
	go func() { waited <- w.room(t.Context()) }()
	select {
	case <-waited:
		t.Error("room was reported while too many results wait")
	case <-time.After(50 * time.Millisecond):
	}
	w.heldBack.Store(0)
	w.taken <- struct{}{}
	if !<-waited {
		t.Error("no room was reported")
	}
	if j, _, err := a.next(nil, nil); j == nil || err != nil {
		t.Errorf("%+v, %v", j, err)
	}
}

// TestYieldsWhileWaitingForTheConsumer checks that a worker whose results aren't consumed gives up the instance when
// another wants it to itself, because the consumer may be waiting for the other's results.
func TestYieldsWhileWaitingForTheConsumer(t *testing.T) {
	w := &worker{taken: make(chan struct{}, 1)}
	w.heldBack.Store(heldLimit + 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	wanted := make(chan struct{})
	close(wanted)
	a := &attempt{worker: w, pause: wanted, inc: &incarnation{dead: make(chan struct{})}, ctx: ctx}
	if err := a.grant(); !errors.Is(err, errYielded) {
		t.Errorf("%v", err)
	}
}
