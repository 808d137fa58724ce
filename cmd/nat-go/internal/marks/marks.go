package marks

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/internal/durable"
)

// Mark is a user's decision on a record. It is a line in a marks file.
type Mark struct {
	Record string `json:"record"`         // hash of the record's content, 32 hex digits
	Mark   string `json:"mark"`           // Approve or Reject; empty means only a note
	Note   string `json:"note,omitempty"` // at most maxNote bytes
}

// The possible marks.
const (
	Approve = "approve"
	Reject  = "reject"
)

const (
	maxNote  = 4 << 10
	maxBytes = 64 << 20 // maximum size of a marks file
)

// InvalidError is the error for an invalid mark.
type InvalidError struct{ error }

// Of returns the path of a run's marks file. It is next to the run's folder, so that marks don't change the run.
func Of(run runfolder.Folder) string { return filepath.Clean(string(run)) + ".marks.jsonl" }

// File is a marks file. It is safe for concurrent use.
type File struct {
	path string

	mu      sync.Mutex
	byKey   map[string]Mark
	order   []string // keys in the order in which they were first marked
	changes int
}

// Read reads a marks file. If the file is missing, Read returns an empty File and an error that wraps fs.ErrNotExist.
func Read(path string) (*File, error) {
	m := &File{path: path, byKey: map[string]Mark{}}
	text, err := durable.ReadFile(path, maxBytes)
	if err != nil {
		return m, err
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var mark Mark
		if err := json.Unmarshal(line, &mark); err != nil || mark.check() != nil {
			return nil, fmt.Errorf("%s:%d is not a mark: {\"record\": 32 hex digits, \"mark\": \"approve\" or "+
				"\"reject\"}", path, n)
		}
		m.set(mark)
	}
	return m, nil
}

func (m *Mark) check() error {
	if _, err := hex.DecodeString(m.Record); err != nil || len(m.Record) != 32 {
		return InvalidError{fmt.Errorf("invalid record hash %q", m.Record)}
	}
	if m.Mark != "" && m.Mark != Approve && m.Mark != Reject {
		return InvalidError{fmt.Errorf("invalid mark %q: expected %s, %s", m.Mark, Approve, Reject)}
	}
	if len(m.Note) > maxNote {
		return InvalidError{fmt.Errorf("note has %d bytes; the maximum is %d", len(m.Note), maxNote)}
	}
	return nil
}

// Content returns the hash of the record's content, for a mark of a File.
func (m *Mark) Content() (content [16]byte) {
	_, _ = hex.Decode(content[:], []byte(m.Record)) // can't fail, because check has accepted Record
	return content
}

func (m *File) set(mark Mark) {
	if _, known := m.byKey[mark.Record]; !known {
		m.order = append(m.order, mark.Record)
	}
	m.byKey[mark.Record] = mark
	m.changes++
}

// Matches collects the marks that match the records of a run.
type Matches struct {
	Rejected []uint64 // ordinals of the records with the mark Reject

	file *File           // nil means that there are no marks
	seen map[string]bool // marks that match a record, keyed by their Record field
}

// Matches returns a new Matches for the file. m may be nil.
func (m *File) Matches() *Matches { return &Matches{file: m, seen: map[string]bool{}} }

// Path returns the path of the marks file.
func (m *Matches) Path() string { return m.file.path }

// Add records the mark on a record, if there is one.
func (m *Matches) Add(content [16]byte, ordinal uint64) {
	if m.file == nil {
		return
	}
	mark, ok := m.file.Get(content)
	if !ok {
		return
	}
	m.seen[mark.Record] = true
	if mark.Mark == Reject {
		m.Rejected = append(m.Rejected, ordinal)
	}
}

// Idle returns the records of the marks that don't match any record.
func (m *Matches) Idle() (idle []string) {
	if m.file == nil {
		return nil
	}
	for _, mark := range m.file.All() {
		if !m.seen[mark.Record] {
			idle = append(idle, mark.Record)
		}
	}
	return idle
}

// Put stores a mark and writes the file. An empty mark without a note removes the record's previous mark.
func (m *File) Put(mark Mark) error {
	if err := mark.check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	lock, err := lockFolder(m.path)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := m.reread(); err != nil {
		return err
	}
	m.set(mark)
	return m.write()
}

// write replaces the file with the current marks. It removes the file if there are none.
func (m *File) write() error {
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
	if text.Len() > maxBytes {
		return fmt.Errorf("too many marks in %s: %d bytes, the maximum is %d", m.path, text.Len(), maxBytes)
	}
	return durable.WriteOutput(m.path, text.Bytes()) // the path may be a link to a marks file shared by several runs
}

// lockPatience is the maximum time that Put waits while other programs write marks. A write takes milliseconds.
const lockPatience = 30 * time.Second

// lockFolder locks the folder of a marks file, so that no other view writes the file between the time it is read and
// the time it is replaced. The file itself can't be locked, because it is replaced and may not exist yet. Closing the
// returned folder releases the lock.
func lockFolder(path string) (*os.File, error) {
	path, err := durable.Linked(path) // lock the folder of the link's target, because WriteOutput follows links
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockPatience); ; time.Sleep(time.Millisecond) {
		if !errors.Is(durable.Lock(dir, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK) {
			return dir, nil // locked, or the file system doesn't support locks
		}
		if time.Now().After(end) {
			dir.Close()
			return nil, fmt.Errorf("mark was not saved: another program has held the lock on %s for %v",
				dir.Name(), lockPatience)
		}
	}
}

// reread reads the file again, because another view of the run may have set marks since the last read.
func (m *File) reread() error {
	now, err := Read(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(now.order) == 0 && len(m.order) == 0 {
		return nil
	}
	m.byKey, m.order = now.byKey, now.order
	m.changes++
	return nil
}

// Get returns a record's mark, given the hash of the record's content.
func (m *File) Get(content [16]byte) (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, ok := m.byKey[Key(content)]
	return mark, ok
}

// Key returns the hash of a record's content in the form used by Mark.Record.
func Key(content [16]byte) string { return hex.EncodeToString(content[:]) }

// All returns the marks in the order in which the records were first marked.
func (m *File) All() []Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]Mark, len(m.order))
	for i, key := range m.order {
		list[i] = m.byKey[key]
	}
	return list
}

// Version returns a number that changes whenever a mark changes.
func (m *File) Version() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}
