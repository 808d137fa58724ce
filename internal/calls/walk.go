package calls

// Walk represents a list of messages in a session. Walks share common prefixes, so the messages of a long session, in
// which each history extends the previous one, are stored only once. The zero Walk is empty.
type Walk int32

// walkStep is the last message of a walk, and the walk before it.
type walkStep struct {
	before  Walk
	message int32
}

// Extend returns a walk with further messages.
func (s *Session) Extend(w Walk, refs ...Ref) Walk {
	for _, r := range refs {
		step := walkStep{w, int32(r)}
		next, ok := s.walkOf[step]
		if !ok {
			s.walks = append(s.walks, step)
			next = Walk(len(s.walks))
			s.walkOf[step] = next
		}
		w = next
	}
	return w
}

// Last returns the last message of a walk, and the walk before it. It reports false for an empty walk.
func (s *Session) Last(w Walk) (r Ref, before Walk, ok bool) {
	if w == 0 {
		return 0, 0, false
	}
	step := s.walks[w-1]
	return Ref(step.message), step.before, true
}

// along returns the node at which a walk ends. It looks up prefixes that it followed before.
func (s *Session) along(g *graph, w Walk) int32 {
	var steps []Walk
	at := int32(-1)
	for w != 0 {
		if known, ok := g.walked[w]; ok {
			at = known
			break
		}
		steps = append(steps, w)
		w = s.walks[w-1].before
	}
	for i := len(steps) - 1; i >= 0; i-- {
		at = s.child(g, at, s.walks[steps[i]-1].message)
		g.walked[steps[i]] = at
	}
	return at
}
