package curate

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/pairs"
	"github.com/nat-go/nat-go/ttc/ledger"
)

func TestDecisionsSurviveTheFile(t *testing.T) {
	d := &Decisions{of: []Decision{
		Train, Validation, Both, Dropped(duplicate), Dropped(notSampled), Dropped(ledger.BadRoles),
	}}
	var file, again bytes.Buffer
	if err := d.Write(&file); err != nil {
		t.Fatal(err)
	}
	d.Write(&again)
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Error("the same decisions, other bytes")
	}
	got, err := ReadDecisions(bytes.NewReader(file.Bytes()), d.Len())
	if err != nil || !slices.Equal(got.of, d.of) || got.Len() != 6 {
		t.Fatal(got, err)
	}
	if r, ok := got.At(3).Reason(); !ok || r != duplicate {
		t.Error(r, ok)
	}
	for i := range file.Len() {
		if _, err := ReadDecisions(bytes.NewReader(file.Bytes()[:i]), d.Len()); err == nil {
			t.Fatalf("accepted the first %d bytes of %d", i, file.Len())
		}
		bad := bytes.Clone(file.Bytes())
		bad[i] ^= 1
		if _, err := ReadDecisions(bytes.NewReader(bad), d.Len()); err == nil {
			t.Fatalf("accepted a file with byte %d changed", i)
		}
	}
}

func TestAFileOfAnotherReasonOrderIsTranslated(t *testing.T) {
	d := &Decisions{of: []Decision{Dropped(pairs.Tie), Dropped(ledger.SameText)}}
	defer slices.Reverse(reasons)
	var file bytes.Buffer
	d.Write(&file)
	slices.Reverse(reasons)
	got, err := ReadDecisions(&file, d.Len())
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := got.At(0).Reason(); r != pairs.Tie {
		t.Error(r)
	}
}

func TestAClaimOfManyRecordsTakesNoMemory(t *testing.T) {
	var file bytes.Buffer
	(&Decisions{of: []Decision{Train}}).Write(&file)
	bad := file.Bytes()
	for i := range 8 {
		bad[len(bad)-17+i] = 0xff
	}
	if _, err := ReadDecisions(bytes.NewReader(bad), 1); err == nil || !strings.Contains(err.Error(), "1 records") {
		t.Error(err)
	}
}

func TestReasonsOfDecisions(t *testing.T) {
	for i, r := range reasons {
		if got, ok := Decision(firstDrop + i).Reason(); !ok || got != r || Dropped(r) != Decision(firstDrop+i) ||
			Dropped(r).Kept() {
			t.Errorf("%s does not map to its own decision, or back", r)
		}
	}
	if _, ok := Both.Reason(); ok || !Both.Trains() || !Both.Validates() || Train.Validates() || Validation.Trains() {
		t.Error("the sides are mixed up")
	}
}

func FuzzReadDecisions(f *testing.F) {
	var file bytes.Buffer
	(&Decisions{of: []Decision{Train, Both, Dropped(pairs.Tie)}}).Write(&file)
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadDecisions(bytes.NewReader(b), 3)
		if err != nil {
			return
		}
		for i := range d.Len() {
			if x := d.At(i); !x.Kept() {
				if _, ok := x.Reason(); !ok {
					t.Fatalf("decision %d is neither kept nor dropped for a reason", x)
				}
			}
		}
	})
}
