package pyvalue

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/nat-go/nat-go/ttc/json"
)

// FuzzParse: no input panics, and anything that parses survives being dumped and parsed again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\ud83d\ude00",null],"a":true}`, `"\ud800"`, `[NaN,-Infinity,1e999]`, `[[[[`, `"\u12`, `-`, `{"a"`, "\"\xed\xa0\x80\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Parse(json.Raw(b))
		if err != nil {
			return
		}
		if _, err := Repr(v); err != nil {
			t.Fatal(err)
		}
		how := Dump{}
		once, err := how.Append(nil, v, nil)
		if err == nil && !utf8.Valid(once) { // a lone surrogate, which a file has only as an escape
			how.ASCII = true
			once, err = how.Append(nil, v, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(json.Raw(once))
		if err != nil {
			t.Fatalf("%q: %v", once, err)
		}
		twice, _ := how.Append(nil, again, nil)
		if !bytes.Equal(once, twice) {
			t.Fatalf("%q != %q", once, twice)
		}
	})
}

func BenchmarkRepr(b *testing.B) {
	v, err := Parse(json.Raw(`{"role": "user", "content": "it's a \"text\" of some length, with café and \n newlines", "n": [1, 2.5, null, true]}`))
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = AppendRepr(buf[:0], v, nil)
	}
	b.SetBytes(int64(len(buf)))
}
