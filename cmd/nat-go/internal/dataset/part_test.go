package dataset

import (
	"encoding/json"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nat-go/nat-go/cmd/nat-go/internal/curate"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/recordlog"
	"github.com/nat-go/nat-go/cmd/nat-go/internal/runfolder"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// parts writes the records of ten tasks as a whole and in three parts. Of the rollouts, it keeps those of every fourth
// task.
func parts(t *testing.T, formats ...Format) (s Spec, whole []runfolder.Written, shares []*Share, dirs []string) {
	t.Helper()
	run, _, _ := allKinds(t)
	var sides []curate.Decision
	for i := range 70 {
		side := []curate.Decision{curate.Train, curate.Validation}[i/7%2]
		if i%7 < 3 && i/7%4 > 0 || i%7 == 3 {
			side = curate.Dropped(curate.Held)
		}
		sides = append(sides, side)
	}
	s = Spec{
		Dir: filepath.Join(run, "whole"), Log: filepath.Join(run, "records"), Decisions: curate.Decided(sides),
		Formats: formats, Options: withTemplate, Dropped: func(ledger.Drop) {},
	}
	whole, err := Write(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]uint64{{0, 7}, {7, 49}, {49, 70}} {
		part := s
		part.Dir = filepath.Join(run, "part", string(rune('a'+len(dirs))))
		share, err := WritePart(t.Context(), part, groups(s.Log, x))
		if err != nil {
			t.Fatal(err)
		}
		shares, dirs = append(shares, stored(t, share)), append(dirs, part.Dir)
	}
	s.Dir = filepath.Join(run, "joined")
	return s, whole, shares, dirs
}

// stored returns a share as it is read back from its file.
func stored(t *testing.T, share *Share) *Share {
	t.Helper()
	text, err := json.Marshal(share)
	if err != nil {
		t.Fatal(err)
	}
	read := new(Share)
	if err := json.Unmarshal(text, read); err != nil {
		t.Fatal(err)
	}
	return read
}

// groups yields the groups whose records are in a range.
func groups(log string, x [2]uint64) iter.Seq2[*recordlog.Group, error] {
	return func(yield func(*recordlog.Group, error) bool) {
		for g, err := range recordlog.Groups(log) {
			if (err != nil || g.First >= x[0] && g.First < x[1]) && !yield(g, err) {
				return
			}
		}
	}
}

// TestPartsMakeTheWhole checks that joined parts have the bytes and the description of a data set written as a whole.
func TestPartsMakeTheWhole(t *testing.T) {
	s, whole, shares, dirs := parts(t, Formats()...)
	joined, err := Join(t.Context(), s, shares, dirs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(whole, joined); diff != "" {
		t.Errorf("described (-whole +joined):\n%s", diff)
	}
	wholeDir := filepath.Join(filepath.Dir(s.Dir), "whole")
	if diff := cmp.Diff(named(t, wholeDir), named(t, s.Dir)); diff != "" {
		t.Errorf("files (-whole +joined):\n%s", diff)
	}
	several := func(w runfolder.Written) bool { return len(w.Refused) > 1 }
	better := func(w runfolder.Written) bool { return w.Instead != "" }
	if len(whole) < 20 || !slices.ContainsFunc(whole, several) || !slices.ContainsFunc(whole, better) {
		t.Errorf("%d formats; none refuses records for several reasons, or none has a better format", len(whole))
	}
}

// named returns the content of every file in a folder by its path there.
func named(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for path, text := range contents(t, dir) {
		all[strings.TrimPrefix(path, dir)] = text
	}
	return all
}

// TestDamagedParts checks that a part's description that doesn't fit its files is an error.
func TestDamagedParts(t *testing.T) {
	kto, _ := Lookup("kto")
	messages, _ := Lookup("messages")
	s, _, shares, dirs := parts(t, kto, messages)
	for want, damage := range map[string]func(*Share){
		"formats in the parts differ":    func(s *Share) { s.Formats[0].Format = "trl" },
		"formats in the parts differ ":   func(s *Share) { s.Formats = s.Formats[:1] },
		"unknown kind of rows in a part": func(s *Share) { s.Formats[0].Files[0].Kind = "verse" },
		"in a part, got ../kto":          func(s *Share) { s.Formats[0].Files[0].Path = "../kto" },
		" rows, but 99 were written":     func(s *Share) { s.Formats[0].Files[0].Rows = 99 },
		"": func(s *Share) { // counts that are missing
			s.Formats[0].Contexts, s.Formats[0].Omitted, s.Formats[0].Tries = nil, nil, nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			bad := stored(t, shares[1])
			damage(bad)
			to := s
			to.Dir = t.TempDir()
			_, err := Join(t.Context(), to, []*Share{shares[0], bad, shares[2]}, dirs)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), strings.TrimSpace(want)) {
				t.Errorf("got %v, want %q", err, want)
			}
			if left := contents(t, to.Dir); err != nil && len(left) > 0 {
				t.Errorf("%d files remain", len(left))
			}
		})
	}
}

// TestRecordsWithoutDecisions checks that a log with more records than decisions is an error in every kind of file.
func TestRecordsWithoutDecisions(t *testing.T) {
	for _, name := range []string{"trl", "trl.parquet"} {
		f, _ := Lookup(name)
		s, _, _, _ := parts(t, f)
		s.Decisions = curate.Decided(make([]curate.Decision, 60))
		_, whole := Write(t.Context(), s)
		_, part := WritePart(t.Context(), s, groups(s.Log, [2]uint64{0, 70}))
		for _, err := range []error{whole, part} {
			if err == nil || !strings.Contains(err.Error(), "it has records without decisions") {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if left := contents(t, s.Dir); len(left) > 0 {
			t.Errorf("%d files remain", len(left))
		}
	}
}
