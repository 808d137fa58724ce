package sdpo

import (
	"context"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/builders/internal/emit"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// successSource answers with the action of another rollout for the task at the same prompt, if that action succeeded,
// or with the action of a better rollout at the point where the rollouts diverge.
type successSource struct{ leakRun int }

func (src successSource) hint(_ context.Context, s *site) (hint, error) {
	if s.parting != nil {
		return s.siblingHint(src.leakRun), nil
	}
	return s.siblings.hint(s), nil
}

// siblings holds a group's successful calls, by prompt. They are collected once per group.
type siblings map[xxh3.Uint128][]*chat.ToolCall

// maxSiblings bounds the calls kept per prompt.
const maxSiblings = 64

// add adds the successful calls on a walk: calls in turns where every call has a result and none failed.
func (sb siblings) add(t *trace) {
	failed := t.failedTurns()
	prompts := t.prompts()
	for i := range t.calls {
		c := &t.calls[i]
		key := prompts[c.turn]
		if failed[c.turn] || t.walk[c.turn].Sampled == ttc.No || len(sb[key]) >= maxSiblings {
			continue
		}
		sb[key] = append(sb[key], c.made)
	}
}

// failedTurns returns the turns that contain a call that failed or lacks a result.
func (t *trace) failedTurns() map[int]bool {
	failed := map[int]bool{}
	for i := range t.failures {
		failed[t.failures[i].turn] = true
	}
	for i := range t.calls {
		if t.calls[i].result < 0 {
			failed[t.calls[i].turn] = true
		}
	}
	return failed
}

// hint returns a successful call made at the site's prompt: one to the same tool if possible, otherwise the first.
// Rollouts share a prompt if the messages before the turn have the same content, apart from call ids.
func (sb siblings) hint(s *site) hint {
	if s.target != builders.FailedTurn {
		return hint{}
	}
	var best *chat.ToolCall
	for _, c := range sb[s.prompts()[s.turn]] {
		if c.Name == s.made.Name && strings.TrimSpace(c.Arguments) == strings.TrimSpace(s.made.Arguments) {
			continue // the same call failed here
		}
		if best == nil || best.Name != s.made.Name && c.Name == s.made.Name {
			best = c
		}
	}
	if best == nil {
		return hint{}
	}
	text := fmt.Sprintf("At this point this call works: %s with the arguments %s", best.Name, best.Arguments)
	return hint{text: text, source: sourceSuccess, kind: builders.Hindsight}
}

// prompts returns, for each position on the walk, a hash of everything before it.
func (t *trace) prompts() []xxh3.Uint128 {
	if t.hashes != nil {
		return t.hashes
	}
	h := xxh3.New()
	for i := range t.example.Tools {
		emit.HashTexts(h, string(t.example.Tools[i].Raw))
	}
	out := make([]xxh3.Uint128, len(t.walk))
	for i, n := range t.walk {
		out[i] = h.Sum128()
		m := &n.Message
		emit.HashTexts(h, m.Role, m.AllText(), m.Name, m.Reasoning)
		for k := range m.ToolCalls {
			emit.HashTexts(h, m.ToolCalls[k].Name, m.ToolCalls[k].Arguments)
		}
		emit.HashTexts(h, "\x00end")
	}
	t.hashes = out
	return out
}
