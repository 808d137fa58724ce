package session

import (
	"slices"

	"github.com/nat-go/nat-go/internal/calls"
	"github.com/nat-go/nat-go/internal/lists"
)

// Given is the last message of a context, and the entry that it comes from. Contexts share their beginnings, so each
// entry adds only one link, however long its context is. Nil is the empty context.
type Given struct {
	Entry  string
	Ref    calls.Ref
	Before *Given
}

// Then returns the context that consists of g and one more message.
func (g *Given) Then(entry string, ref calls.Ref) *Given { return &Given{entry, ref, g} }

// Links lists a context's links, from the first message to the last.
func (g *Given) Links() (all []*Given) {
	for ; g != nil; g = g.Before {
		all = append(all, g)
	}
	slices.Reverse(all)
	return all
}

// Input lists the messages of a context.
func (g *Given) Input() []calls.Ref {
	return lists.Map(g.Links(), func(link *Given) calls.Ref { return link.Ref })
}
