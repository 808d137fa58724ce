package tables

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
)

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"quotes, empty cells": {"a,b\n\"x, \"\"y\"\"\nz\",\n,7\n", "{\"a\":\"x, \\\"y\\\"\\nz\"}\n{\"b\":\"7\"}\n"},
		"tabs":                {"a\tb\n1\t2\n", "{\"a\":\"1\",\"b\":\"2\"}\n"},
		"semicolons, a mark":  {"\xEF\xBB\xBFa;b\r\n1;2\r\n", "{\"a\":\"1\",\"b\":\"2\"}\n"},
		"no name":             {"a,\n1,2\n", "{\"a\":\"1\",\"column_2\":\"2\"}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := io.ReadAll(CSV(strings.NewReader(c.text))); err != nil || string(got) != c.want {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		})
	}
	_, err := io.ReadAll(CSV(strings.NewReader("a,b\n1\n")))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// TestOpenQuote: a quote that is never closed ends in an error, without using more memory than a row's limit.
func TestOpenQuote(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("a,b\n1,\""), io.LimitReader(zeros{}, 1<<30))
	if _, err := io.ReadAll(CSV(endless)); err == nil || !strings.Contains(err.Error(), "quote left open") {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

func TestIsCSV(t *testing.T) {
	for head, want := range map[string]bool{
		"question,answer\n": true, "a\tb\n": true,
		`{"a": 1}`: false, "[1]": false, "Dear Sir, hello!\n": false, "one\n": false,
	} {
		t.Run(head, func(t *testing.T) {
			if got := IsCSV("-", []byte(head)); got != want {
				t.Errorf("%q: %v", head, got)
			}
		})
	}
	if !IsCSV("x.csv.gz", []byte("what?, a\n")) || IsCSV("x.jsonl", []byte("a,b\n")) {
		t.Error("names don't count")
	}
}

func TestParquet(t *testing.T) {
	type call struct {
		Name string  `parquet:"name"`
		Args *string `parquet:"args,optional"`
	}
	type row struct {
		Text  string    `parquet:"text"`
		Calls []call    `parquet:"calls,list"`
		When  time.Time `parquet:"when,timestamp"`
		Score float64   `parquet:"score"`
		N     int64     `parquet:"n"`
		None  *string   `parquet:"none,optional"`
		Yes   bool      `parquet:"yes"`
	}
	var b bytes.Buffer
	one := row{"a\n\"b\"", []call{{Name: "f"}}, time.Date(2024, 2, 1, 3, 0, 0, 0, time.UTC), 2, 1 << 60, nil, true}
	if err := parquet.Write(&b, []row{one}); err != nil {
		t.Fatal(err)
	}
	r, err := Parquet(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	want := `{"text":"a\n\"b\"","calls":[{"name":"f"}],"when":"2024-02-01T03:00:00Z",` +
		`"score":2.0,"n":1152921504606846976,"yes":true}` + "\n"
	if got, err := io.ReadAll(r); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for cut := range b.Len() { // truncated files are errors
		if r, err := Parquet(bytes.NewReader(b.Bytes()[:cut]), int64(cut)); err == nil {
			_, _ = io.ReadAll(r)
		}
	}
}

// TestJSONColumns: a value of a column of JSON is that value, digit by digit; what isn't JSON stays a text.
func TestJSONColumns(t *testing.T) {
	var out bytes.Buffer
	schema := parquet.NewSchema("rows", parquet.Group{
		"one": parquet.Optional(parquet.JSON()), "many": parquet.List(parquet.JSON()), "text": parquet.String(),
	})
	w := parquet.NewGenericWriter[any](&out, schema)
	text := func(s string, repetition, definition, column int) parquet.Value {
		return parquet.ByteArrayValue([]byte(s)).Level(repetition, definition, column)
	}
	if _, err := w.WriteRows([]parquet.Row{
		{text(`{"c":1}`, 0, 1, 0), text(`[2]`, 1, 1, 0), text("{\"b\": 12345678901234567890,\n\"a\": \"<x>\"}", 0, 1, 1), text(`{"t":1}`, 0, 0, 2)},
		{text(`3`, 0, 1, 0), text(`no JSON`, 0, 1, 1), text("t", 0, 0, 2)},
		{text(`null`, 0, 1, 0), parquet.Value{}.Level(0, 0, 1), text("t", 0, 0, 2)},
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Parquet(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	const want = `{"many":[{"c":1},[2]],"one":{"b":12345678901234567890,"a":"<x>"},"text":"{\"t\":1}"}
{"many":[3],"one":"no JSON","text":"t"}
{"many":[null],"text":"t"}
`
	if err != nil || string(got) != want {
		t.Errorf("got %s, want %s, %v", got, want, err)
	}
}
