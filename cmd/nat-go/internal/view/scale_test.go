package view

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
)

// countedGroups counts how much of a log is read.
type countedGroups struct {
	groups
	read int
}

func (c *countedGroups) Group(offset int64) (*recordlog.Group, error) {
	c.read++
	return c.groups.Group(offset)
}

// TestWorkOfLargeRuns: with 50,000 records, an answer reads and sends no more than the window it shows.
func TestWorkOfLargeRuns(t *testing.T) {
	const n = 50_000
	r := open(t, testRun(t, n))
	counted := &countedGroups{groups: r.log}
	r.log = counted
	s, h := serve(t, r)
	for _, c := range []struct {
		path         string
		groups, sent int
	}{
		{"/api/overview", 0, 16 << 10},
		{"/api/rows?limit=50", 50, 64 << 10},
		{"/api/rows?limit=50&offset=49900", 50, 64 << 10},
		{"/api/rows?limit=50&q=margin%3E49990", 9, 64 << 10},
		{"/api/rows?limit=50&q=builder+%3D%3D+%22moves%22+and+%22train%22+in+split&sort=-score", 50, 64 << 10},
		{"/api/rows?limit=50&q=task+%3D%3D+%22task1%22", 50, 64 << 10},
		{"/api/rows?limit=1000000", maxRows, 256 << 10},
		{"/api/record?n=30000", 1, 16 << 10},
		{"/api/rows?limit=50&q=text+contains+%22good+answer%22", 0, 1 << 10},
		{"/api/search?q=text+contains+%22good+answer%22", maxHits, 512 << 10},
		{"/api/search?q=text+contains+%22nobody+said+this%22", n, 4 << 10},
	} {
		t.Run(c.path, func(t *testing.T) {
			r.kept, counted.read = nil, 0
			w := httptest.NewRecorder()
			h.ServeHTTP(w, s.request("GET", c.path, ""))
			if w.Code != 200 || counted.read > c.groups+groupsKept || w.Body.Len() > c.sent {
				t.Errorf("%s: %d, %d groups read, %d bytes sent; at most %d and %d",
					c.path, w.Code, counted.read, w.Body.Len(), c.groups, c.sent)
			}
		})
	}
	rare := searched(t, s, h, "text+contains+%22answer+49999%22")
	if last := rare[len(rare)-1]; len(rare) != n/progressEvery+1 || rare[n/progressEvery-1].Row.Record != n || last.At != n ||
		last.More {
		t.Errorf("%d lines, the last two %+v", len(rare), rare[len(rare)-2:])
	}
	first := searched(t, s, h, "text+contains+%22good+answer%22")
	last := first[len(first)-1]
	if hits := searched(t, s, h, "text+contains+%22good+answer%22&at="+strconv.Itoa(last.At)); !last.More || last.At < maxHits ||
		hits[0].Row.Record <= first[len(first)-2].Row.Record {
		t.Errorf("a search that continues from %+v begins with %+v", last, hits[0].Row)
	}
	var o overview
	if get(t, s, h, "/api/overview", &o); o.Facets["task"][0] != (value{"task0", 16667}) || o.Records != n {
		t.Errorf("%d records, tasks %v", o.Records, o.Facets["task"])
	}
}

// TestGroupsAreKept: the groups read last are not read again.
func TestGroupsAreKept(t *testing.T) {
	r := open(t, testRun(t, groupsKept+1))
	counted := &countedGroups{groups: r.log}
	r.log, r.kept = counted, nil
	for _, c := range []struct {
		ordinals, read int
	}{{1, 1}, {1, 1}, {groupsKept, groupsKept}, {groupsKept, groupsKept}, {groupsKept + 1, groupsKept + 1}} {
		for n := range uint64(c.ordinals) {
			if _, err := r.record(n); err != nil {
				t.Fatal(err)
			}
		}
		if counted.read != c.read {
			t.Errorf("%d groups were read, not %d", counted.read, c.read)
		}
	}
}

// searched returns the lines that a search sends.
func searched(t *testing.T, s *Server, h http.Handler, q string) (list []hit) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, s.request("GET", "/api/search?q="+q, ""))
	for d := json.NewDecoder(w.Body); ; {
		var line hit
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return list
		} else if err != nil || line.Error != "" {
			t.Fatalf("%v %+v", err, line)
		}
		list = append(list, line)
	}
}

// TestSorted: whatever the order, rows without a score come last, and equal rows stay in the order of the log.
func TestSorted(t *testing.T) {
	nan := float32(math.NaN())
	scores := []float32{2, nan, -1, 0, 2, float32(math.Inf(1)), -0.5, float32(math.Inf(-1)), nan}
	tb := &table{Entries: make([]entry, len(scores))}
	for i, s := range scores {
		tb.Entries[i].Score = s
	}
	for down, want := range map[bool][]uint32{
		false: {7, 2, 6, 3, 0, 4, 5, 1, 8}, true: {5, 0, 4, 3, 6, 2, 7, 1, 8},
	} {
		got := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}
		if tb.sortBy(got, sorts["score"], down); !slices.Equal(got, want) {
			t.Errorf("down %v: got %v, want %v", down, got, want)
		}
	}
}

// BenchmarkRows measures the operations a person waits for, on NATGO_VIEW_RECORDS records.
func BenchmarkRows(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("NATGO_VIEW_RECORDS"))
	if err != nil {
		n = 50_000
	}
	r := open(b, testRun(b, n))
	s, h := serve(b, r)
	for name, path := range map[string]string{
		"first":    "/api/rows?limit=50",
		"filter":   "/api/rows?limit=50&q=margin%3E0.9+builder%3Amoves",
		"sort":     "/api/rows?limit=50&sort=-score",
		"overview": "/api/overview",
		"record":   "/api/record?n=" + strconv.Itoa(n/2),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.last = "" // a repeated question is not answered anew
				get(b, s, h, path, nil)
			}
		})
	}
}
