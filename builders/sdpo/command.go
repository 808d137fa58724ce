package sdpo

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/internal/lines"
	"github.com/nat-go/nat-go/internal/process"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/json"
)

// commandSource queries a user's program. Questions and answers are JSON objects, one per line. Every answer is stored
// in a file under the hash of its question and is not requested again, so a repeated or resumed run produces the same
// records. Failures are not stored, so a resumed run asks those questions again unless their groups were already
// committed. The file is locked while a question is pending, so processes that share it ask each question once.
type commandSource struct {
	cfg Command

	mu      sync.Mutex
	known   map[string]stored
	read    int64 // number of bytes of the answers file read so far
	process *process.Responder
	started int // number of times the program was started
}

// Limits on the program.
const (
	maxAnswer   = 1 << 20 // bytes in a line of the program's output
	maxStored   = 8 << 20 // bytes in a line of the answers file; JSON may use six bytes for a byte of an answer
	maxRestarts = 5       // restarts of a failing program
)

// question is a request to the program.
type question struct {
	ID        string   `json:"id"` // SHA-256 of the other fields
	Tool      string   `json:"tool"`
	Arguments string   `json:"arguments"`
	Error     string   `json:"error"`
	Class     string   `json:"class"`
	Target    string   `json:"target"`
	Schema    json.Raw `json:"schema,omitempty"`
	Tools     []string `json:"tools,omitempty"`
	Task      string   `json:"task"` // the first user message

	// The source's annotations of the error; "" and {} if absent.
	ErrorKind string   `json:"error_kind"`
	ErrorMeta json.Raw `json:"error_meta"`
}

// reply is the program's answer: a hint; null, to omit the site; or an empty hint, to ask the next source.
type reply struct {
	ID   string  `json:"id"`
	Hint *string `json:"hint"`
	Kind string  `json:"kind"`
}

// stored is a line of the answers file.
type stored struct {
	Input  string  `json:"input"`          // the question's id
	Hint   *string `json:"hint,omitempty"` // nil means no hint is wanted
	Kind   string  `json:"kind,omitempty"`
	Failed string  `json:"failed,omitempty"` // reason why there is no answer
}

func (c *commandSource) hint(ctx context.Context, s *site) (hint, error) {
	q, err := s.question()
	if err != nil {
		return hint{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.known[q.ID]
	if !ok {
		if a, err = c.ask(ctx, q); err != nil {
			return hint{}, err
		}
	}
	if a.Failed != "" {
		return hint{}, errors.New(a.Failed)
	}
	h := hint{source: sourceCommand, kind: builders.Hindsight, none: a.Hint == nil}
	if a.Hint != nil {
		h.text = *a.Hint
	}
	if cmp.Or(a.Kind, c.cfg.Kind) == "knowable" { // other values in a stored answer mean hindsight
		h.kind = builders.Knowable
	}
	return h, nil
}

func (s *site) question() (*question, error) {
	q := &question{
		Tool:      s.made.Name,
		Arguments: s.made.Arguments,
		Error:     s.errorText(),
		Class:     s.class,
		Target:    "failed_turn",
		ErrorKind: s.told.kind,
		ErrorMeta: s.told.meta,
		Schema:    parameters(s.tool()),
		Tools:     names(s.example.Tools),
	}
	if s.target == builders.NextTurn {
		q.Target = "next_turn"
	}
	if i := slices.IndexFunc(s.walk, func(n *ttc.Node) bool { return n.Message.Role == "user" }); i >= 0 {
		q.Task = s.walk[i].Message.AllText()
	}
	line, err := q.line()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(line)
	q.ID = hex.EncodeToString(sum[:])
	return q, nil
}

// line returns the question as it is sent. Lone surrogates become U+FFFD, because the program reads plain JSON.
func (q *question) line() ([]byte, error) {
	schema, meta := stdjson.RawMessage(q.Schema), stdjson.RawMessage(q.ErrorMeta)
	if !stdjson.Valid(schema) {
		schema = nil
	}
	if !stdjson.Valid(meta) {
		meta = stdjson.RawMessage("{}")
	}
	var b bytes.Buffer
	enc := stdjson.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(struct {
		*question
		Schema    stdjson.RawMessage `json:"schema,omitempty"`
		ErrorMeta stdjson.RawMessage `json:"error_meta"`
	}{q, schema, meta}); err != nil {
		return nil, fmt.Errorf("cannot ask the hint command: %w", err)
	}
	return b.Bytes(), nil
}

// ask looks up the question in the file, which another process may have extended, and asks the program if it isn't
// there. An error means that the file couldn't be used or ctx is done. A failing program is not an error, and its
// failure is not stored.
func (c *commandSource) ask(ctx context.Context, q *question) (a stored, err error) {
	f, err := os.OpenFile(c.cfg.Answers, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return a, answersError(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return a, fmt.Errorf("hints.command.answers: lock %s: %w", c.cfg.Answers, err)
	}
	if err := c.takeIn(f); err != nil {
		return a, err
	}
	if a, ok := c.known[q.ID]; ok {
		return a, nil
	}
	if a = c.run(ctx, q); ctx.Err() != nil {
		return a, context.Cause(ctx)
	}
	if a.Failed != "" { // not stored, so other builders ask the question again
		c.known[q.ID] = a
		return a, nil
	}
	line, err := stdjson.Marshal(a)
	if err != nil {
		return a, err
	}
	n, err := f.Write(append(line, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return a, answersError(err)
	}
	c.known[q.ID] = a
	c.read += int64(n)
	return a, nil
}

func answersError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("hints.command.answers: %w", err)
}

// takeIn reads the lines that were added to the file since the last read. It removes a line that a crash truncated.
func (c *commandSource) takeIn(f *os.File) error {
	if _, err := f.Seek(c.read, io.SeekStart); err != nil {
		return answersError(err)
	}
	for line, err := range lines.ReadWhole(f, maxStored) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return answersError(f.Truncate(c.read))
		}
		if err != nil {
			return answersError(err)
		}
		var a stored
		if err := stdjson.Unmarshal(line, &a); err != nil || a.Input == "" {
			return fmt.Errorf("hints.command.answers: %s is damaged at byte %d: remove that line to ask its question again", c.cfg.Answers, c.read)
		}
		if _, twice := c.known[a.Input]; !twice && a.Failed == "" { // older versions stored failures
			c.known[a.Input] = a
		}
		c.read += int64(len(line)) + 1 // includes the newline
	}
	return nil
}

// run asks the program and converts any outcome into an answer.
func (c *commandSource) run(ctx context.Context, q *question) stored {
	r, err := c.exchange(ctx, q)
	if err == nil {
		return stored{Input: q.ID, Hint: r.Hint, Kind: r.Kind}
	}
	a := stored{Input: q.ID, Failed: err.Error()}
	if c.process != nil {
		if said := c.process.End(); said != "" {
			a.Failed += "; it says: " + said
		}
		c.process = nil
	}
	return a
}

func (c *commandSource) exchange(ctx context.Context, q *question) (r reply, err error) {
	if c.process == nil {
		if c.started > maxRestarts {
			return r, fmt.Errorf("hint command %s failed %d times and will not be restarted", c.cfg.Run[0], c.started)
		}
		c.started++
		// The program inherits this process's environment; in a plugin, that contains only the variables that the host
		// granted.
		c.process, err = process.Respond(process.Config{Args: c.cfg.Run, Env: os.Environ()}, maxAnswer)
		if err != nil {
			return r, fmt.Errorf("start the hint command: %w", err)
		}
	}
	line, err := q.line()
	if err != nil {
		return r, err
	}
	answer, err := c.process.Ask(ctx, line, c.cfg.Timeout)
	if err != nil {
		return r, fmt.Errorf("hint command %s %w", c.cfg.Run[0], err)
	}
	dec := stdjson.NewDecoder(bytes.NewReader(answer))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&r); {
	case err != nil:
		return r, fmt.Errorf("hint command %s did not answer with {\"id\", \"hint\", \"kind\"}: %s",
			c.cfg.Run[0], process.Beginning(answer))
	case r.ID != q.ID:
		return r, fmt.Errorf("hint command %s answered a different question: id %s", c.cfg.Run[0],
			process.Beginning([]byte(r.ID)))
	case r.Kind != "" && r.Kind != "knowable" && r.Kind != "hindsight":
		return r, fmt.Errorf("hint command %s answered with the unknown kind %s", c.cfg.Run[0],
			process.Beginning([]byte(r.Kind)))
	}
	return r, nil
}

func (c *commandSource) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.End()
		c.process = nil
	}
}
