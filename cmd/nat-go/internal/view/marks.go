package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Mark is what a person decided on a record, a line of a file of marks. The record is named by the hash of its content,
// so a mark holds in every run that has the record.
type Mark struct {
	Record string `json:"record"`         // hash of kind and all sides, 32 hex digits
	Mark   string `json:"mark"`           // approve, reject, or empty: a note alone
	Note   string `json:"note,omitempty"` // at most maxNote bytes
}

const (
	approve = "approve"
	reject  = "reject"

	maxNote  = 4 << 10
	maxMarks = 64 << 20 // bytes of a file of marks
)

// MarksOf is where the marks of a run are: beside it, so that the run stays as it was written.
func MarksOf(run runfolder.Folder) string { return filepath.Clean(string(run)) + ".marks.jsonl" }

// marks are those of a run. They are safe for concurrent use.
type marks struct {
	path string

	mu      sync.Mutex
	byKey   map[string]Mark
	order   []string // keys in the order they were first marked
	changes int
}

// readMarks reads a file of marks, which need not exist. Of two marks of a record the later one holds.
func readMarks(path string) (*marks, error) {
	m := &marks{path: path, byKey: map[string]Mark{}}
	text, err := durable.ReadFile(path, maxMarks)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var mark Mark
		if err := json.Unmarshal(line, &mark); err != nil || mark.check() != nil {
			return nil, fmt.Errorf(
				"%s:%d is not a mark: {\"record\": 32 hex digits, \"mark\": \"approve\" or \"reject\"}",
				path,
				n,
			)
		}
		m.set(mark)
	}
	return m, nil
}

func (m *Mark) check() error {
	if len(m.Record) != 32 {
		return badQuery{fmt.Errorf("%q names no record", m.Record)}
	}
	if m.Mark != "" && m.Mark != approve && m.Mark != reject {
		return badQuery{fmt.Errorf("%q is not a mark: %s, %s", m.Mark, approve, reject)}
	}
	if len(m.Note) > maxNote {
		return badQuery{fmt.Errorf("the note has %d bytes, at most %d are kept", len(m.Note), maxNote)}
	}
	return nil
}

func (m *marks) set(mark Mark) {
	if _, known := m.byKey[mark.Record]; !known {
		m.order = append(m.order, mark.Record)
	}
	m.byKey[mark.Record] = mark
	m.changes++
}

// put keeps a mark and writes the file. An empty mark without a note takes back what was there.
func (m *marks) put(mark Mark) error {
	if err := mark.check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set(mark)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	for _, key := range m.order {
		if k := m.byKey[key]; k.Mark != "" || k.Note != "" {
			if err := e.Encode(k); err != nil {
				return err
			}
		}
	}
	if text.Len() == 0 {
		if err := os.Remove(m.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return durable.WriteFile(m.path, text.Bytes())
}

func (m *marks) of(e *entry) (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, ok := m.byKey[e.key()]
	return mark, ok
}

// verdict is approve or reject, or "note" where there is only that; empty without a mark.
func (m *marks) verdict(e *entry) string {
	mark, ok := m.of(e)
	switch {
	case !ok:
		return ""
	case mark.Mark == "" && mark.Note != "":
		return "note"
	}
	return mark.Mark
}

// version changes whenever a mark does.
func (m *marks) version() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}
