package source

import "math/bits"

// seen maps the hash of an id to the hash of the first entry that had it. In a Go map they take three times the memory,
// which is most of what reading many short entries takes: 1.1 GB for 10 million.
//
// Ids with the same hash are taken for one, so the later one gets a name that it doesn't need; entries are duplicates
// only if both hashes agree, 128 bits.
type seen struct{ parts [256]seenPart }

// seenPart has the ids whose hashes begin with one byte, so that a table that grows is a small part of the whole. It is
// searched from the place that the rest of the hash stands for.
type seenPart struct {
	slots []seenSlot // at most three quarters are taken
	n     int
}

type seenSlot struct{ id, entry uint64 } // id 0: free

// put adds an id and its entry unless the id is known; then it returns the entry that was added with it.
func (s *seen) put(id, entry uint64) (first uint64, known bool) {
	id = max(id, 1)
	p := &s.parts[id>>56]
	if p.n >= len(p.slots)/4*3 {
		p.grow()
	}
	slot := p.find(id)
	if slot.id == id {
		return slot.entry, true
	}
	*slot = seenSlot{id, entry}
	p.n++
	return 0, false
}

// find returns the slot that an id has or would have.
func (p *seenPart) find(id uint64) *seenSlot {
	at, _ := bits.Mul64(id<<8, uint64(len(p.slots)))
	for {
		slot := &p.slots[at]
		if slot.id == id || slot.id == 0 {
			return slot
		}
		if at++; at == uint64(len(p.slots)) {
			at = 0
		}
	}
}

func (p *seenPart) grow() {
	old := p.slots
	p.slots = make([]seenSlot, max(16, len(old)+len(old)/4))
	for _, slot := range old {
		if slot.id != 0 {
			*p.find(slot.id) = slot
		}
	}
}
