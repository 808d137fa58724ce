package pyvalue

import (
	"strconv"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

func TestIntDigitLimit(t *testing.T) {
	for text, ok := range map[string]bool{
		strings.Repeat("1", 4300): true, "-" + strings.Repeat("1", 4300): true,
		strings.Repeat("1", 4301): false, "-" + strings.Repeat("1", 4301): false,
	} {
		t.Run(text, func(t *testing.T) {
			v, err := Parse(json.Raw(text))
			if (err == nil) != ok {
				t.Errorf("%d digits: %v", len(text), err)
			}
			if s, err := Repr(v); ok && (err != nil || s != text) {
				t.Errorf("%d digits: repr %v", len(text), err)
			}
		})
	}
}

func TestDepthEndsInRecursionError(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2)
	if _, err := Parse(json.Raw(deep)); err == nil || err.(*Error).Class != "RecursionError" {
		t.Errorf("parse: %v", err)
	}
	a, b := NewList(nil), NewList(nil)
	for range MaxDepth + 2 {
		a, b = NewList([]Value{a}), NewList([]Value{b})
	}
	if _, err := Repr(a); err == nil {
		t.Error("repr of a too deep list succeeded")
	}
	if _, err := Dumps(a); err == nil {
		t.Error("dumps of a too deep list succeeded")
	}
	if _, err := Equal(a, b); err == nil {
		t.Error("comparison of too deep lists succeeded")
	}
}

func TestDictKeepsFirstSpellingAndPlace(t *testing.T) {
	d := &Dict{}
	for i := range 20 {
		d.SetStr(strings.Repeat("k", i), Int(int64(i)))
	}
	if err := d.Set(Int(1), Str("int")); err != nil {
		t.Fatal(err)
	}
	if err := d.Set(True, Str("bool")); err != nil {
		t.Fatal(err)
	}
	if err := d.Set(Float(1), Str("float")); err != nil {
		t.Fatal(err)
	}
	k, v := d.At(20)
	if got, _ := Repr(k); d.Len() != 21 || got != "1" || v.Text() != "float" {
		t.Errorf("len %d, key %s, value %q", d.Len(), got, v.Text())
	}
	if err := d.Set(NewList(nil), None); err == nil || err.Error() != "TypeError: unhashable type: 'list'" {
		t.Errorf("list as key: %v", err)
	}
	if err := d.Set(NewTuple(Int(1), Str("a")), Int(7)); err != nil {
		t.Fatal(err)
	}
	if v, ok, _ := d.Get(NewTuple(Float(1), Str("a"))); !ok || v.n != 7 {
		t.Errorf("tuple key: %v %v", v, ok)
	}
}

func TestMarkerSeesWhereBytesComeFrom(t *testing.T) {
	d := &Dict{}
	d.SetStr("k", TaggedStr("a\nb", &Tag{"tag"}))
	var got []string
	out, err := Dump{}.Append(nil, OfDict(d), func(v Value, dst int) {
		got = append(got, v.TypeName()+" "+strconv.Itoa(dst))
	})
	if err != nil || string(out) != `{"k": "a\nb"}` {
		t.Fatalf("%s %v", out, err)
	}
	if want := "dict 0,str 1,dict 4,str 6,dict 12"; strings.Join(got, ",") != want {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestTags(t *testing.T) {
	big, _ := Parse(json.Raw(strings.Repeat("9", 40)))
	for _, v := range []Value{None, True, Int(3), Float(2.5), Str("x"), big} {
		tagged := v.WithTag(&Tag{"here"})
		if tagged.Tag() != "here" {
			t.Errorf("%s: tag %v", v.TypeName(), tagged.Tag())
		}
		if eq, _ := Equal(v, tagged); !eq {
			t.Errorf("%s: a tag changes equality", v.TypeName())
		}
		a, _ := Repr(v)
		if b, _ := Repr(tagged); a != b {
			t.Errorf("%s: a tag changes repr: %s, %s", v.TypeName(), a, b)
		}
	}
}

// TestIsText compares texts at the same address, texts at different ones, and values of other kinds.
func TestIsText(t *testing.T) {
	role := string([]byte("role"))
	for _, c := range []struct {
		v    Value
		s    string
		want bool
	}{
		{Str(Intern(role)), Intern("role"), true},
		{Str(role), "role", true},
		{Str("role"), "rolE", false},
		{Str("role"), "rol", false},
		{Str(""), "", true},
		{None, "", false},
		{Int(4), "role", false},
		{Str(Intern("other")), "other", true},
	} {
		t.Run(c.s, func(t *testing.T) {
			if got := c.v.IsText(c.s); got != c.want {
				t.Errorf("%v is %q: %v", c.v.Text(), c.s, got)
			}
		})
	}
}
