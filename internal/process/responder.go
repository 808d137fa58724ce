package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nat-go/nat-go/internal/lines"
)

// maxStderr is the maximum number of bytes kept of a responder's standard error.
const maxStderr = 2000

// Responder is a program that answers each line it reads with one line. It is not trusted: a response has a size limit
// and a deadline, and an unsolicited line is an error. It serves one caller at a time.
type Responder struct {
	*Process
	answers chan answer
	said    *head
	limit   int
}

type answer struct {
	text []byte
	err  error
}

// Respond starts a program that answers in lines of at most limit bytes. It sets c.Stdout, c.Stderr and c.Input.
func Respond(c Config, limit int) (*Responder, error) {
	r := &Responder{answers: make(chan answer, 1), said: &head{}, limit: limit}
	c.Input, c.Stdout, c.Stderr = true, r.listen, func(from io.Reader) { _, _ = io.Copy(r.said, from) }
	var err error
	if r.Process, err = Start(c); err != nil {
		return nil, err
	}
	return r, nil
}

// listen passes on lines until the output ends or a line is too long. It waits until each line is consumed, which
// blocks a program that writes lines faster than Ask consumes them.
func (r *Responder) listen(out io.Reader) {
	defer close(r.answers)
	for text, err := range lines.ReadWhole(out, r.limit) {
		if _, ok := errors.AsType[*lines.TooLong](err); ok {
			r.answers <- answer{err: fmt.Errorf("answered with a line of more than %d bytes", r.limit)}
		}
		if err != nil {
			return
		}
		r.answers <- answer{text: bytes.Clone(text)}
	}
}

// Ask sends a line and waits for the response. Callers prefix its error with the name of the command.
func (r *Responder) Ask(ctx context.Context, send []byte, wait time.Duration) ([]byte, error) {
	select { // unsolicited output is an error
	case a, ok := <-r.answers:
		if !ok {
			return nil, errors.New("ended")
		}
		if a.err != nil {
			return nil, a.err
		}
		return nil, fmt.Errorf("wrote an unrequested line: %s", Beginning(a.text))
	default:
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	sent := make(chan error, 1)
	go func() {
		_, err := r.Stdin.Write(send)
		sent <- err
	}()
	for {
		select {
		case err := <-sent:
			if err != nil {
				return nil, fmt.Errorf("did not read its input: %w", err)
			}
			sent = nil
		case a, ok := <-r.answers:
			switch {
			case !ok:
				return nil, errors.New("ended without an answer")
			case a.err != nil:
				return nil, a.err
			}
			return a.text, nil
		case <-limit.C:
			return nil, fmt.Errorf("did not answer within %s", wait)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// End ends the program and its descendants, and returns the beginning of its standard error.
func (r *Responder) End() string {
	r.Kill(errors.New("no longer needed"))
	for range r.answers { // unblock listen, so that it ends
	}
	<-r.Done()
	return strings.TrimSpace(strings.ToValidUTF8(string(r.said.b), "?"))
}

// Beginning returns the first 40 bytes of a program's output as a quoted string, for use in an error.
func Beginning(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), 40)]), "?")
	return fmt.Sprintf("%q", s)
}

// head keeps the beginning of the written data.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxStderr-len(h.b))]...)
	return len(p), nil
}
