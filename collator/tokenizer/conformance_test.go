//go:build tokenizers && cgo

package tokenizer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/internal/oracletest"

	"github.com/nat-go/nat-go/ttc/chat"
)

// load loads an oracle tokenizer once for all tests.
func load(t testing.TB, name string) *Tokenizer {
	t.Helper()
	if tok := loaded[name]; tok != nil {
		return tok
	}
	tok, err := Load(filepath.Join(oracletest.Path(t, "chat", "tokens"), "tokenizers", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	loaded[name] = tok
	return tok
}

var loaded = map[string]*Tokenizer{}

type oracleSide struct {
	IDs     []int32  `json:"ids"`
	Offsets [][2]int `json:"offsets_byte"`
	Same    bool     `json:"same_as_plain"`
}

type oracleLine struct {
	I             int         `json:"i"`
	Text          string      `json:"text"`
	OK            *bool       `json:"ok"`
	Plain         oracleSide  `json:"plain"`
	Special       *oracleSide `json:"special"`
	Decode        *string     `json:"decode"`
	DecodeSkip    *string     `json:"decode_skip_special"`
	SpecialAsText []int32     `json:"ids_special_as_text"`
}

func oracle(t testing.TB, file string) []oracleLine {
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []oracleLine
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var line oracleLine
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if in.Err() != nil || len(lines) == 0 {
		t.Fatalf("%s: %d lines, %v", file, len(lines), in.Err())
	}
	return lines
}

func checkSide(t *testing.T, line oracleLine, what string, got Encoding, want oracleSide) {
	t.Helper()
	if !slices.Equal(got.IDs, want.IDs) {
		t.Errorf("%d %s: ids of %.80q\n got %v\nwant %v", line.I, what, line.Text, got.IDs, want.IDs)
		return
	}
	for i, o := range want.Offsets {
		if got.Offsets[i] != (chat.Span{Start: o[0], End: o[1]}) {
			t.Errorf("%d %s: offset %d of %.80q is %v, want %v", line.I, what, i, line.Text, got.Offsets[i], o)
			return
		}
	}
}

// TestConformance compares every id, offset and decoded text with Python's.
func TestConformance(t *testing.T) {
	dir := oracletest.Path(t, "chat", "tokens")
	files, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		t.Run(name, func(t *testing.T) {
			tok := load(t, name)
			for _, line := range oracle(t, file) {
				conform(t, tok, line)
			}
		})
	}
}

func conform(t *testing.T, tok *Tokenizer, line oracleLine) {
	got, err := tok.Encode(line.Text, Options{ParseSpecial: true})
	if line.OK != nil && !*line.OK {
		if err == nil {
			t.Errorf("%d: %.80q should be refused", line.I, line.Text)
		}
		return
	}
	if err != nil {
		t.Errorf("%d: %.80q: %v", line.I, line.Text, err)
		return
	}
	checkSide(t, line, "plain", got, line.Plain)
	if line.Special != nil {
		with, err := tok.Encode(line.Text, Options{AddSpecial: true, ParseSpecial: true})
		if err != nil {
			t.Errorf("%d: %v", line.I, err)
		}
		want := *line.Special
		if want.Same {
			want = line.Plain
		}
		checkSide(t, line, "special", with, want)
	}
	asText, err := tok.Encode(line.Text, Options{})
	if err != nil {
		t.Errorf("%d: %v", line.I, err)
	}
	want := line.SpecialAsText
	if want == nil {
		want = line.Plain.IDs
	}
	if !slices.Equal(asText.IDs, want) {
		t.Errorf("%d: %.80q as text\n got %v\nwant %v", line.I, line.Text, asText.IDs, want)
	}
	for skip, want := range map[bool]*string{false: line.Decode, true: line.DecodeSkip} {
		expect := line.Text
		if want != nil {
			expect = *want
		} else if skip {
			if line.Decode != nil {
				expect = *line.Decode
			}
		}
		if text, err := tok.Decode(line.Plain.IDs, skip); err != nil || text != expect {
			t.Errorf("%d: decode(skip %v) of %.80q: got %.120q, want %.120q, %v", line.I, skip, line.Text, text, expect,
				err)
		}
	}
}

// TestRowsConform checks that a row without template holds the same tokens as the text with its special tokens as text,
// and that a row that is all template holds those of plain encoding.
func TestRowsConform(t *testing.T) {
	dir := oracletest.Path(t, "chat", "tokens")
	for _, name := range []string{"Meta-Llama-3-8B-Instruct", "qwen2_5", "cohere-tokenizer", "bert-base-uncased"} {
		t.Run(name, func(t *testing.T) {
			tok := load(t, name)
			if ok, why := tok.Segmentable(); !ok {
				t.Fatalf("%s: %s", name, why)
			}
			for _, line := range oracle(t, filepath.Join(dir, name+".jsonl")) {
				var row Encoding
				if err := tok.EncodeRow(&row, line.Text, []chat.Span{{Start: 0, End: len(line.Text)}}); err != nil {
					t.Fatal(err)
				}
				checkSide(t, line, name+" template", row, line.Plain)
				row.Reset()
				if err := tok.EncodeRow(&row, line.Text, nil); err != nil {
					t.Fatal(err)
				}
				want := line.SpecialAsText
				if want == nil {
					want = line.Plain.IDs
				}
				if !slices.Equal(row.IDs, want) {
					t.Errorf("%s %d: %.80q as content\n got %v\nwant %v", name, line.I, line.Text, row.IDs, want)
				}
			}
		})
	}
}
