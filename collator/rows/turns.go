package rows

import (
	"slices"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/chat"
)

// Turns counts the trained turns of demonstrations, or the sites of distillations, that a format carries or loses.
type Turns struct {
	Carried  int64 `json:"carried,omitempty"`
	Lost     int64 `json:"lost,omitempty"`     // number of the record's trained turns that are in no row
	Repeated int64 `json:"repeated,omitempty"` // number of row bytes that repeat content of another row of the record
}

// Add adds the counts of another record.
func (t *Turns) Add(o Turns) {
	t.Carried, t.Lost, t.Repeated = t.Carried+o.Carried, t.Lost+o.Lost, t.Repeated+o.Repeated
}

// Turns returns the turn counts of the last record, or zero if it was neither a demonstration nor a distillation. After
// a refusal, all trained turns count as lost.
func (e *Encoder) Turns() Turns { return e.turns }

// Silent returns the indices, in ascending order, of the trained turns of the last record that consist only of masked
// reasoning. No row trains on these turns.
func (e *Encoder) Silent() []int { return e.silent }

// demonstrated returns a demonstration's messages up to its last trained turn, and whether each is trained on.
func (e *Encoder) demonstrated(r *builders.Resolved) (nodes []ttc.Node, trained []bool) {
	d := r.Record.(*builders.Demonstration)
	nodes = r.Messages.Nodes
	trained = d.Train.Turns(nodes, d.Trained)
	last, n := -1, int64(0)
	e.masked = false
	for i := range nodes {
		if !trained[i] {
			continue
		}
		n++
		if d.MaskReasoning && nodes[i].Message.Thinks() {
			if trained[i] = nodes[i].Message.Says(); !trained[i] {
				e.silent = append(e.silent, int(n)-1)
				continue
			}
			e.masked = true
			why := "the trainer can only train on whole turns"
			if e.cannotMask != nil {
				why = e.cannotMask(asText(&nodes[i].Message))
			}
			if why != "" {
				e.refuse("cannot mask only the reasoning of message %d (train_reasoning: false): %s", i, why)
			}
		}
		last = i
	}
	e.turns = Turns{Lost: n}
	if last < 0 {
		e.refuse("no turn of the record is trained on")
	}
	if e.err != nil {
		return nil, nil
	}
	e.trimmed = len(nodes) - last - 1
	return nodes[:last+1], trained[:last+1]
}

// carry moves n of the record's turns from lost to carried.
func (e *Encoder) carry(n int) {
	e.turns.Carried += int64(n)
	e.turns.Lost -= int64(n)
}

// masked reports whether a message is an untrained assistant message.
func masked(nodes []ttc.Node, trained []bool, i int) bool {
	return nodes[i].Message.Role == "assistant" && !trained[i]
}

// everyTurn returns the beginning of a demonstration, for a trainer that trains on all assistant turns. It ends with
// the last trained turn before the first context-only one, if any. Later turns are lost.
func (e *Encoder) everyTurn(nodes []ttc.Node, trained []bool) []ttc.Node {
	end, n := 0, 0
	for i := range nodes {
		if masked(nodes, trained, i) {
			if n == 0 {
				e.refuse("the trainer trains on every assistant turn, but the first one, message %d, is context only", i)
			}
			break
		}
		if trained[i] {
			end, n = i+1, n+1
		}
	}
	e.carry(n)
	return nodes[:end]
}

// eachTurn calls row for each trained turn of a demonstration or, if stretch is set, for each series of trained turns
// with no masked turn between them. row is called with messages [from, to). Each row is on its own line.
func (e *Encoder) eachTurn(
	dst []byte, nodes []ttc.Node, trained []bool, stretch bool, row func(dst []byte, from, to int) []byte,
) []byte {
	start, longest := len(dst), 0
	for from := 0; from < len(nodes); {
		if !trained[from] {
			from++
			continue
		}
		to, n := from+1, 1
		for i := to; stretch && i < len(nodes) && !masked(nodes, trained, i); i++ {
			if trained[i] {
				to, n = i+1, n+1
			}
		}
		if e.turns.Carried > 0 {
			dst = e.next(dst)
		}
		began := len(dst)
		dst = row(dst, from, to)
		longest = max(longest, len(dst)-began)
		e.carry(n)
		from = to
	}
	e.turns.Repeated = int64(len(dst) - start - longest)
	return dst
}

// flagged appends messages; each assistant message has a member that says whether it is trained on.
func (e *Encoder) flagged(
	dst []byte, nodes []ttc.Node, trained []bool, member func(dst []byte, m *chat.Message, trained bool) []byte,
) []byte {
	dst = append(dst, '[')
	for i := range nodes {
		m := e.shown(&nodes[i].Message)
		dst = e.fullMessage(item(dst), m)
		if m.Role == "assistant" {
			dst = append(member(dst[:len(dst)-1], m, trained[i]), '}')
		}
		if trained[i] {
			e.carry(1)
		}
	}
	return append(dst, ']')
}

// hasRole rejects messages whose role isn't in roles.
func (e *Encoder) hasRole(nodes []ttc.Node, roles ...string) {
	for i := range nodes {
		if role := nodes[i].Message.Role; !slices.Contains(roles, role) {
			e.refuse("message %d has the role %q, which the consumer does not support", i, role)
		}
	}
}
