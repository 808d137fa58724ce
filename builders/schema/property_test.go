package schema

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"github.com/nat-go/nat-go/builders/yamldoc"
	"github.com/nat-go/nat-go/internal/property"
)

type everything struct {
	Text   string             `yaml:"text" default:"x"`
	Int    int64              `yaml:"int" default:"3"`
	Small  int8               `yaml:"small"`
	Float  float64            `yaml:"float" default:"0.5"`
	Bool   bool               `yaml:"bool" default:"true"`
	Wait   time.Duration      `yaml:"wait" default:"1s"`
	Bytes  Size               `yaml:"bytes"`
	Maybe  *int               `yaml:"maybe"`
	List   []string           `yaml:"list"`
	Map    map[string]float64 `yaml:"map"`
	Nested struct {
		Enum string `yaml:"enum" default:"a" validate:"oneof=a b"`
	} `yaml:"nested"`
	Objects []struct {
		N int `yaml:"n"`
	} `yaml:"objects"`
}

func drawEverything(t *rapid.T) everything {
	var v everything
	v.Text = texts().Draw(t, "text")
	v.Int = rapid.Int64().Draw(t, "int")
	v.Small = rapid.Int8().Draw(t, "small")
	v.Float = rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }).
		Draw(t, "float")
	v.Bool = rapid.Bool().Draw(t, "bool")
	v.Wait = time.Duration(rapid.Int64Min(0).Draw(t, "wait"))
	v.Bytes = Size(rapid.Int64Min(0).Draw(t, "bytes"))
	if rapid.Bool().Draw(t, "has") {
		n := rapid.Int().Draw(t, "maybe")
		v.Maybe = &n
	}
	v.List = rapid.SliceOf(texts()).Draw(t, "list")
	v.Map = rapid.MapOf(texts(), rapid.Float64Range(-1e9, 1e9)).Draw(t, "map")
	v.Nested.Enum = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "enum")
	for range rapid.IntRange(0, 3).Draw(t, "objects") {
		v.Objects = append(v.Objects, struct {
			N int `yaml:"n"`
		}{rapid.Int().Draw(t, "n")})
	}
	if v.Objects == nil {
		v.Objects = []struct {
			N int `yaml:"n"`
		}{}
	}
	return v
}

func texts() *rapid.Generator[string] {
	// yaml.v3 writes some texts that contain line endings in a form that it can't read back.
	return rapid.StringN(0, 12, 40).Filter(func(s string) bool {
		return utf8.ValidString(s) && !strings.ContainsAny(s, "\r\n\u0085\u2028\u2029") && s != "<<"
	})
}

// TestDecodeInvertsEncode checks this for YAML and for the canonical JSON that a plugin gets.
func TestDecodeInvertsEncode(t *testing.T) {
	spec := MustOf(everything{})
	property.Check(t, func(t *rapid.T) {
		want := drawEverything(t)
		out, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var viaJSON []byte
		for _, form := range []string{"yaml", "json"} {
			if form == "json" {
				out = viaJSON
			}
			doc, fs := yamldoc.Parse("c.yml", out)
			if len(fs) > 0 {
				t.Fatalf("%s: %v\n%s", form, fs, out)
			}
			var got everything
			if fs := spec.Decode(doc, doc.Root, &got, Options{}); len(fs) > 0 {
				t.Fatalf("%s: %v\n%s", form, fs, out)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s: %s\n%s", form, d, out)
			}
			if viaJSON, fs = spec.JSON(doc, doc.Root, Options{}); len(fs) > 0 {
				t.Fatal(fs)
			}
		}
	})
}

// TestFindingsLieInTheText corrupts a valid text at random places and checks every position that is reported.
func TestFindingsLieInTheText(t *testing.T) {
	spec := MustOf(everything{})
	property.Check(t, func(t *rapid.T) {
		out, err := yaml.Marshal(drawEverything(t))
		if err != nil {
			t.Fatal(err)
		}
		runes := []rune(string(out))
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			at := rapid.IntRange(0, len(runes)-1).Draw(t, "at")
			runes[at] = rapid.SampledFrom([]rune("x:-[]{}\"' \n\té$&*!|>0.")).Draw(t, "edit")
		}
		doc, fs := yamldoc.Parse("c.yml", []byte(string(runes)))
		if doc != nil {
			fs = append(fs, spec.Check(doc, doc.Root, Options{})...)
		}
		lines := strings.Split(string(runes), "\n")
		for _, f := range fs {
			if f.Line == 0 {
				continue
			}
			if f.Line > len(lines) {
				t.Fatalf("the line is outside the text: %+v", f)
			}
			width := utf8.RuneCountInString(lines[f.Line-1])
			if f.Column < 1 || f.Column > width+1 || f.EndColumn < f.Column || f.EndColumn > width+1 {
				t.Fatalf("the columns are outside the line, which is %d wide: %+v", width, f)
			}
			if f.Message == "" || f.Fix == "" || f.Code == "" {
				t.Fatalf("the message, fix or code is empty: %+v", f)
			}
		}
	})
}

func TestSizeRoundTrip(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		want := Size(rapid.Int64Min(0).Draw(t, "size"))
		if got, err := ParseSize(want.String()); err != nil || got != want {
			t.Fatalf("%d -> %s -> %d %v", want, want, got, err)
		}
	})
	for text, want := range map[string]Size{
		"1.5GB":               1.5e9,
		"0":                   0,
		"7":                   7,
		"1 KiB":               1024,
		"2mib":                2 << 20,
		"9223372036854775807": math.MaxInt64,
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := ParseSize(text); err != nil || got != want {
				t.Errorf("%s: %d %v", text, got, err)
			}
		})
	}
	for _, text := range []string{
		"", "B", "-1", "1e400GB", "inf", "0x10", "9223372036854775808", "9999999TiB", "1 XB", "NaN", "1_0",
	} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// FuzzFromJSONSchema checks that no schema from a plugin makes the host panic, and that what was read can be written
// and read again.
func FuzzFromJSONSchema(f *testing.F) {
	f.Add(string(MustOf(everything{}).JSONSchema()), "text: 1\nint: x\n")
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"type":"string"},{"$ref":"#/$defs/a"}]}}}`, "a: 1")
	f.Add(`{"type":["string","integer","null"],"enum":["a",1],"pattern":"(","minimum":1e999}`, "a: 1")
	f.Add(`{"properties":{"a":{"const":"x","default":"y"},"b":{"items":true}},"required":["a","z"]}`, "a: x\nb: [1]")
	f.Fuzz(func(t *testing.T, schemaText, text string) {
		spec, err := FromJSONSchema([]byte(schemaText))
		if err != nil {
			return
		}
		if _, err := FromJSONSchema(spec.JSONSchema()); err != nil {
			t.Fatalf("can't read what was written: %v\n%s", err, spec.JSONSchema())
		}
		if doc, _ := yamldoc.Parse("c.yml", []byte(text)); doc != nil {
			spec.JSON(doc, doc.Root, Options{})
		}
	})
}

// TestNoJSONSchema checks that a plugin's builder without a schema accepts any object and gets all of it.
func TestNoJSONSchema(t *testing.T) {
	s, err := FromJSONSchema(nil)
	if err != nil || s.Kind != Map || s.Elem == nil || s.Elem.Kind != Any {
		t.Fatalf("%+v, %v", s, err)
	}
}
