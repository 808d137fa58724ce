package curate

import (
	"encoding/binary"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/nat-go/nat-go/builders"
	"github.com/nat-go/nat-go/ttc/ledger"
)

// TestEntriesBeyondMemory decides on more entries than the sort holds in memory, as a merge of shards feeds them, and
// compares the number of drops with what was put in. NATGO_CURATE_ENTRIES sets how many entries there are.
func TestEntriesBeyondMemory(t *testing.T) {
	const memory = 1 << 20 // room for 8,000 entries
	n, limit := uint64(100_000), int64(0)
	rules := Rules{
		Dedupe: true, Contradictions: true, Memory: memory,
		Split: Split{By: ByTask, Validation: 0.2, Seed: 42},
	}
	if text := os.Getenv("NATGO_CURATE_ENTRIES"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 48); err != nil {
			t.Fatal(err)
		}
		rules.Memory, limit = 0, 512<<20 // what a merge sorts in
	}
	d := NewIndex(rules, t.TempDir())
	defer d.Close()
	for i := range n {
		if err := d.Add(scaleEntry(i)); err != nil {
			t.Fatal(err)
		}
	}
	decisions, err := d.Decide()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[ledger.Reason]int64{}
	for x, c := range decisions.Counts() {
		reason, _ := x.Reason()
		counts[reason] = c
	}
	if got, want := counts[duplicate], int64(n/100); got != want {
		t.Errorf("%d duplicates, want %d", got, want)
	}
	if got, want := counts[Contradiction], 2*int64(n/100); got != want {
		t.Errorf("%d contradictions, want %d", got, want)
	}
	if got, want := decisions.Counts()[Validation], decisions.Kept()/5; got < want-1 || got > want+1 {
		t.Errorf("%d records validate, want %d", got, want)
	}
	peak := peakMemory(t)
	t.Logf("%d entries, %d kept, peak memory %d MiB", n, decisions.Kept(), peak>>20)
	if limit > 0 && peak > limit {
		t.Errorf("the peak was %d MiB, and may be %d", peak>>20, limit>>20)
	}
}

// scaleEntry returns the entry with an ordinal: of a hundred, one repeats an entry far before it, and two contradict
// each other.
func scaleEntry(i uint64) Entry {
	e := Entry{Ordinal: i, Kind: builders.KindPreference}
	of, swap := i, false
	switch i % 100 {
	case 99: // repeats the first of its hundred
		of = i - 99
	case 98: // contradicts the one before it
		of, swap = i-1, true
	}
	e.Prompt, e.Chosen, e.Rejected = scaleHash(of, 1), scaleHash(of, 2), scaleHash(of, 3)
	if swap {
		e.Chosen, e.Rejected = e.Rejected, e.Chosen
	}
	e.Content = scaleHash(of, 4)
	e.Example = scaleHash(i, 5)
	e.Task = e.Example
	return e
}

func scaleHash(i, seed uint64) [16]byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], i)
	return xxh3.Hash128Seed(b[:], seed).Bytes()
}

// peakMemory returns the most memory that the process has had so far.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(after)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
