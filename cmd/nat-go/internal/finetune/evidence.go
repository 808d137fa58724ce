package finetune

import (
	"fmt"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/readers"
)

// evidence finds the rule, if any, that scored an example in a group, and the message that the rule matched.
type evidence struct {
	rules *readers.ScoreRules // nil if the run doesn't have score rules
	group *ttc.Group          // the group as the builder saw it
	found map[int]json.Raw
}

// addTo adds the evidence to a record's metadata.
func (e *evidence) addTo(r builders.Record) {
	if e.rules == nil {
		return
	}
	h := r.Header()
	add := func(key string, example int) {
		if raw := e.forExample(example); raw != nil {
			h.Metadata = withMember(h.Metadata, key, raw)
		}
	}
	if p, ok := r.(*builders.Preference); ok && p.Chosen.Ref.Part == builders.NodeSpan &&
		p.Rejected.Ref.Part == builders.NodeSpan && p.Chosen.Ref.Example != p.Rejected.Ref.Example {
		add("chosen_scored_by", p.Chosen.Ref.Example)
		add("rejected_scored_by", p.Rejected.Ref.Example)
		return
	}
	add("scored_by", h.Example)
}

// forExample returns the evidence for an example, or nil if its score didn't come from a rule.
func (e *evidence) forExample(example int) json.Raw {
	if raw, ok := e.found[example]; ok || example < 0 || example >= len(e.group.Examples) {
		return raw
	}
	if e.found == nil {
		e.found = map[int]json.Raw{}
	}
	e.found[example] = nil
	ex := e.group.Examples[example]
	x, ok := e.rules.Of(ex)
	if !ok || ex.Reward == nil || *ex.Reward != x.Score { // the score didn't come from the rules
		return nil
	}
	b := json.AppendString([]byte(`{"rule":`), x.Rule)
	b = fmt.Appendf(b, `,"score":%v,"message":%d,"tool":`, x.Score, x.Message)
	b = json.AppendString(b, x.Tool)
	b = json.AppendString(append(b, `,"quote":`...), x.Quote)
	e.found[example] = append(b, '}')
	return e.found[example]
}

// withMember returns the object with a member added; nil counts as an empty object. An object that already has the key,
// or any value that isn't an object, is returned unchanged.
func withMember(object json.Raw, key string, value json.Raw) json.Raw {
	out := json.Raw("{")
	if object != nil {
		if _, has := object.Get(key); has || object.Kind() != json.Object {
			return object
		}
		out = append(json.Raw(nil), object[:len(object)-1]...)
		for range object.Members() {
			out = append(out, ',')
			break
		}
	}
	out = json.AppendString(out, key)
	return append(append(append(out, ':'), value...), '}')
}
