package pytext

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/nat-go/nat-go/internal/pythontest"
)

func TestLenAndByteIndexCountCodePoints(t *testing.T) {
	s := "aé\xed\xa0\x80😀z"
	if Len(s) != 5 {
		t.Errorf("Len = %d", Len(s))
	}
	for i, want := range []int{0, 1, 3, 6, 10, 11, 11} {
		if got := ByteIndex(s, i); got != want {
			t.Errorf("ByteIndex(%d) = %d, want %d", i, got, want)
		}
	}
	if r, n := DecodeRune("\xed\xa0\x80"); r != 0xd800 || n != 3 {
		t.Errorf("DecodeRune = %x %d", r, n)
	}
}

func python(t *testing.T) string {
	t.Helper()
	return pythontest.Need(t, "python",
		"import unicodedata, sys; assert sys.version_info[:2] == (3, 11) and unicodedata.unidata_version == '14.0.0'",
		"nothing is compared with CPython itself")
}

// TestPropertiesAgainstPython compares every property and case mapping for every code point.
func TestPropertiesAgainstPython(t *testing.T) {
	b, err := exec.Command(python(t), "testdata/properties.py").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(rune) bool{
		"isprintable": IsPrintable, "isspace": IsSpace, "isalpha": isAlpha, "isdecimal": IsDecimal, "isdigit": IsDigit,
		"isnumeric": isNumeric, "isalnum": IsAlnum, "isupper": isUpper, "islower": isLower,
	} {
		t.Run(name, func(t *testing.T) {
			edges := want[name].([]any)
			inside, bad := false, 0
			for r := rune(0); r < 0x110000 && bad < 5; r++ {
				if len(edges) > 0 && rune(edges[0].(float64)) == r {
					inside, edges = !inside, edges[1:]
				}
				if f(r) != inside {
					t.Errorf("%s(%#x) = %v", name, r, !inside)
					bad++
				}
			}
		})
	}
	for name, f := range map[string]func([]byte, rune) []byte{
		"upper": AppendUpper, "lower": AppendLower, "title": AppendTitle,
	} {
		t.Run(name, func(t *testing.T) {
			h := sha256.New()
			var buf []byte
			for r := rune(0); r < 0x110000; r++ {
				buf = append(f(buf[:0], r), '\n')
				h.Write(buf)
			}
			if got := hex.EncodeToString(h.Sum(nil)); got != want[name] {
				t.Errorf("%s differs from Python's for some code point", name)
			}
		})
	}
}
