package recordlog

import (
	"errors"
	"io"
	"iter"
)

// Groups yields the groups of the log in dir, in order, up to its last commit. An error is the last thing it yields.
func Groups(dir string) iter.Seq2[*Group, error] {
	return func(yield func(*Group, error) bool) {
		r, err := NewReader(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for {
			g, err := r.Next()
			if errors.Is(err, io.EOF) || !yield(g, err) || err != nil {
				return
			}
		}
	}
}

// groupsAhead is how many groups are read ahead.
const groupsAhead = 16

// GroupsAhead is Groups for callers that keep nothing of a group: it is valid until the next, whose memory it shares.
// Groups are read while earlier ones are being processed.
func GroupsAhead(dir string) iter.Seq2[*Group, error] {
	return func(yield func(*Group, error) bool) {
		r, err := NewReader(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		type item struct {
			g   *Group
			err error
		}
		groups, stop, done := make(chan item, groupsAhead), make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			defer close(groups)
			for {
				g, err := r.Next()
				if errors.Is(err, io.EOF) {
					return
				}
				select { // wait: whoever ranges closes stop
				case groups <- item{g, err}:
				case <-stop:
					return
				}
				if err != nil {
					return
				}
			}
		}()
		defer func() { close(stop); <-done }() // wait: stop ends the reading
		for it := range groups {
			if !yield(it.g, it.err) || it.err != nil {
				return
			}
			r.Reuse(it.g)
		}
	}
}
