package recordlog

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/coder"
	"github.com/nat-go/nat-go/ttc"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// written makes a log from groups.
func written(t *testing.T, keys ...string) string {
	t.Helper()
	dir := t.TempDir()
	w, err := Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := w.Append(sample(t, key)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Commit(nil, true), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func recommitted(t *testing.T, dir string, change func(c *Commit)) {
	t.Helper()
	c, err := ReadCommit(dir)
	if err != nil {
		t.Fatal(err)
	}
	change(&c)
	text, err := json.Marshal(c)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, CommitName), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readThrough(dir string) error {
	for _, err := range Groups(dir) {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRoomIsAnnounced checks that the writer announces exactly as much memory for lists as the reader needs.
func TestRoomIsAnnounced(t *testing.T) {
	g := sample(t, "a")
	var e codec
	if err := e.group(g); err != nil {
		t.Fatal(err)
	}
	room := e.Lists
	if err := (&codec{Coder: coder.Reader(e.Buf, &room)}).group(new(Group)); err != nil || room != 0 {
		t.Errorf("%d of %d bytes are left: %v", room, e.Lists, err)
	}
	room = e.Lists - 1
	if err := (&codec{Coder: coder.Reader(e.Buf, &room)}).group(new(Group)); !errors.Is(err, coder.ErrLists) {
		t.Errorf("with less room: %v", err)
	}
	var again Group
	room = e.Lists
	if err := (&codec{Coder: coder.Reader(e.Buf, &room)}).group(&again); err != nil {
		t.Fatal(err)
	}
	var copied codec
	if err := copied.group(&again); err != nil || copied.Lists != e.Lists {
		t.Errorf("after reading, the lists of the group take %d bytes, want %d: %v", copied.Lists, e.Lists, err)
	}
}

// TestLargeGroups checks that only sizes above the default limits are announced, and that a reader returns an error for
// a group that exceeds the announced sizes or the rest of the file.
func TestLargeGroups(t *testing.T) {
	var c Commit
	c.announce(usualFrame, usualLists)
	if c.Large != nil {
		t.Errorf("%+v", c.Large)
	}
	c.announce(2*usualFrame, 5)
	c.announce(usualFrame, 3*usualLists)
	if got := c.largest(); got != (Large{2 * usualFrame, 3 * usualLists}) {
		t.Errorf("%+v", got)
	}
	if err := c.largest().checkFrame(2*usualFrame, 3*usualFrame); err != nil {
		t.Error(err)
	}
	for n, left := range map[uint64]int64{
		2*usualFrame + 1: 1 << 40, 1 << 63: 1 << 40, 100: 100, 0: 15, 1: -1,
	} {
		if err := c.largest().checkFrame(n, left); err == nil {
			t.Errorf("a frame of %d bytes was accepted where %d bytes are left", n, left)
		}
	}
}

// TestForgedFrame checks that no memory is allocated for a frame that claims to have gigabytes, if the file contains
// only a hole, or nothing, in its place.
func TestForgedFrame(t *testing.T) {
	const size = 4 << 30
	dir := written(t, "a")
	path := filepath.Join(dir, LogName)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(binary.LittleEndian.AppendUint64(nil, size), int64(HeaderSize))
	if err := errors.Join(err, f.Truncate(size+100), f.Close()); err != nil {
		t.Fatal(err)
	}
	recommitted(t, dir, func(c *Commit) { c.Bytes = size + 100 })
	access, err := OpenAccess(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer access.Close()
	for name, read := range map[string]func() error{
		"in order": func() error { return readThrough(dir) },
		"ahead": func() (err error) {
			GroupsAhead(dir)(func(_ *Group, e error) bool { err = e; return true })
			return err
		},
		"by offset": func() error { _, err := access.Group(int64(HeaderSize)); return err },
		"a range": func() (err error) {
			GroupsIn(dir, Range{int64(HeaderSize), size, 0})(func(_ *Group, e error) bool { err = e; return true })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := read(); err == nil || !strings.Contains(err.Error(), "invalid frame size") {
				t.Errorf("%v", err)
			}
		})
	}
	if err := os.Truncate(path, 1000); err != nil {
		t.Fatal(err)
	}
	if err := readThrough(dir); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("cut short: %v", err)
	}
}

// TestForgedCommit checks that a log whose counts differ from the committed ones is rejected, because curation has one
// decision for each committed record.
func TestForgedCommit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Commit)
		says   string
	}{
		"as it is":       {func(*Commit) {}, ""},
		"fewer records":  {func(c *Commit) { c.Records-- }, "too many records"},
		"more records":   {func(c *Commit) { c.Records++ }, "committed records"},
		"no end":         {func(c *Commit) { c.Records = 1 << 60 }, "is damaged: "},
		"before it":      {func(c *Commit) { c.Bytes = -1 }, "is damaged: "},
		"within a frame": {func(c *Commit) { c.Bytes -= 9 }, "invalid frame size"},
		"beyond it":      {func(c *Commit) { c.Bytes++ }, "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := written(t, "a", "b")
			recommitted(t, dir, c.change)
			err := readThrough(dir)
			if c.says == "" && err == nil {
				return
			}
			if err == nil || c.says == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
		})
	}
}

// TestForgedRange checks that ranges whose bounds overflow when added are rejected.
func TestForgedRange(t *testing.T) {
	dir := written(t, "a")
	const begin = int64(HeaderSize)
	for _, x := range []Range{{1 << 62, 1 << 62, 0}, {begin, 1<<63 - 1, 0}, {0, 10, 0}, {begin, -1, 0}} {
		for _, err := range GroupsIn(dir, x) {
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%+v: %v", x, err)
			}
		}
	}
}

// TestFull checks that writing a log fails for anything that couldn't be read back.
func TestFull(t *testing.T) {
	for name, change := range map[string]func(g *Group){
		"a record of one input too many": func(g *Group) { g.Records[0].Origin.Run = maxRuns },
		"a drop of one input too many":   func(g *Group) { g.Drops = []ledger.Drop{{Run: maxRuns}} },
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Create(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			g := sample(t, "a")
			change(g)
			if err := w.Append(g); !errors.Is(err, ErrFull) {
				t.Errorf("err = %v", err)
			}
		})
	}
	t.Run("records", func(t *testing.T) {
		dir := written(t, "a")
		w, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		w.state.Records = maxRecords
		if err := w.Append(sample(t, "b")); !errors.Is(err, ErrFull) {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("records of joined logs", func(t *testing.T) {
		dir := written(t, "a")
		c, err := ReadCommit(dir)
		if err != nil {
			t.Fatal(err)
		}
		j, err := Create(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		j.state.Records = maxRecords
		if _, err := j.Join(dir, c.XXH3); !errors.Is(err, ErrFull) {
			t.Errorf("err = %v", err)
		}
	})
}

// TestForgedOrigins checks that an example or a drop with an impossible input number is rejected, because some data is
// kept for each input up to the last. Counts whose sums would overflow are also rejected.
func TestForgedOrigins(t *testing.T) {
	for name, change := range map[string]func(g *Group){
		"a negative input":               func(g *Group) { g.Records[0].Origin.Run = -1 },
		"an input beyond the limit":      func(g *Group) { g.Records[0].Origin.Run = maxRuns },
		"an unknown fidelity":            func(g *Group) { g.Records[0].Origin.Fidelity = ttc.IDsLogProbs + 1 },
		"a negative row":                 func(g *Group) { g.Records[0].Origin.Row = -1 },
		"a drop":                         func(g *Group) { g.Drops = []ledger.Drop{{Run: -1}} },
		"a drop with a negative count":   func(g *Group) { g.Drops = []ledger.Drop{{Count: -1}} },
		"a drop with an excessive count": func(g *Group) { g.Drops = []ledger.Drop{{Count: 1 << 62}} },
		"a negative account": func(g *Group) {
			g.Accounts = []ledger.Account{{Stage: ledger.Build, Unit: "pair", In: -1}}
		},
		"an excessive account": func(g *Group) {
			g.Accounts = []ledger.Account{{Stage: ledger.Build, Unit: "pair", Out: 1 << 62}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := sample(t, "a")
			change(g)
			var e codec
			if err := e.group(g); err != nil {
				t.Fatal(err)
			}
			if err := new(Group).decode(e.Buf, Large{usualFrame, usualLists}); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}
