package coder

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/internal/property"
)

// all has a field of each type.
type all struct {
	Natural uint16
	Integer int64
	Octet   uint8
	Bool    bool
	Float   float64
	Maybe   *float64
	Text    string
	Name    string
	Same    string
	Raw     []byte
	List    []item
	NotNil  []int
	Reused  []uint32
	IDs     []int32
	Probs   []float32
	Four    int
	JSON    map[string]int
}

type item struct {
	Text string
	Four int
}

func (a *all) code(c *Coder, last string) {
	Natural(c, &a.Natural)
	Integer(c, &a.Integer)
	Octet(c, &a.Octet)
	c.Bool(&a.Bool)
	c.Float(&a.Float)
	if Optional(c, &a.Maybe) {
		c.Float(a.Maybe)
	}
	c.String(&a.Text)
	c.Kept(&a.Name)
	c.Same(&a.Same, &last)
	Raw(c, &a.Raw)
	for i := range List(c, &a.List) {
		c.String(&a.List[i].Text)
		c.Fixed32(&a.List[i].Four)
	}
	for i := range NotNil(c, &a.NotNil) {
		Integer(c, &a.NotNil[i])
	}
	for i := range Reused(c, &a.Reused) {
		Natural(c, &a.Reused[i])
	}
	Fixed(c, &a.IDs)
	Fixed(c, &a.Probs)
	c.Fixed32(&a.Four)
	c.JSON(&a.JSON)
}

var values = rapid.Custom(func(t *rapid.T) *all {
	a := &all{
		Natural: rapid.Uint16().Draw(t, "natural"), Integer: rapid.Int64().Draw(t, "integer"),
		Octet: rapid.Uint8().Draw(t, "octet"), Bool: rapid.Bool().Draw(t, "bool"),
		Float: rapid.Float64().Draw(t, "float"), Text: rapid.String().Draw(t, "text"),
		Name: rapid.String().Draw(t, "name"), Same: rapid.SampledFrom([]string{"", "last", "other"}).Draw(t, "same"),
		NotNil: rapid.SliceOf(rapid.Int()).Draw(t, "not nil"),
		Four:   int(rapid.Int32().Draw(t, "four")), JSON: map[string]int{"a": 1},
	}
	if rapid.Bool().Draw(t, "more") {
		a.Maybe, a.Raw, a.Reused = &a.Float, []byte{}, []uint32{1, 1 << 31}
		a.List, a.IDs, a.Probs = []item{{"a", -1}, {"", 2}}, []int32{-1, 1 << 30}, []float32{-0.5}
	}
	return a
})

// TestBothWays checks that values are read back unchanged, that reading needs exactly the memory that the writer
// announces, and that truncated data is an error.
func TestBothWays(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want, got := values.Draw(t, "values"), &all{Maybe: new(0.5)} // Maybe is left from an earlier value
		var w Coder
		want.code(&w, "last")
		room := w.Lists
		r := Reader(w.Buf, &room)
		if got.code(&r, "last"); r.Err != nil || r.Left() != 0 || room != 0 {
			t.Fatalf("%d bytes and room for %d more are left: %v", r.Left(), room, r.Err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		room = w.Lists
		r = Reader(w.Buf[:rapid.IntRange(0, len(w.Buf)-1).Draw(t, "cut")], &room)
		if new(all).code(&r, "last"); r.Err == nil {
			t.Fatal("cut-off data was read")
		}
		if room = w.Lists - 1; room >= 0 {
			r = Reader(w.Buf, &room)
			if new(all).code(&r, "last"); !errors.Is(r.Err, ErrLists) {
				t.Fatalf("with too little room: %v", r.Err)
			}
		}
	})
}

// TestOutOfRange checks that a number which the variable can't hold is an error, instead of becoming another number.
func TestOutOfRange(t *testing.T) {
	var w Coder
	large, least := int64(1<<32), int64(-1<<40)
	Natural(&w, &large)
	natural := Reader(w.Buf, nil)
	if Natural(&natural, new(int32)); natural.Err == nil {
		t.Error("2^32 was read as an int32")
	}
	w = Coder{}
	Integer(&w, &least)
	integer := Reader(w.Buf, nil)
	if Integer(&integer, new(int32)); integer.Err == nil {
		t.Error("-2^40 was read as an int32")
	}
}

func FuzzRead(f *testing.F) {
	var w Coder
	half := 0.5
	(&all{Maybe: &half, List: []item{{"a", 1}}, IDs: []int32{1}, Same: "a"}).code(&w, "")
	f.Add(w.Buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		room := int64(24 * len(b))
		a, r := &all{}, Reader(b, &room)
		if a.code(&r, ""); r.Err != nil {
			return
		}
		var again Coder
		if a.code(&again, ""); again.Err != nil || again.Lists != int64(24*len(b))-room {
			t.Errorf("lists of %d bytes: %v", again.Lists, again.Err)
		}
	})
}
