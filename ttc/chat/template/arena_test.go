package template

import (
	"slices"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestRoomIsUsedAgain renders into buffers that other renders left behind, including a refused render and a very large
// one. Text and spans must equal a render with its own memory.
func TestRoomIsUsedAgain(t *testing.T) {
	tmpl, err := Compile(`{% for m in messages %}<{{ m.content | trim }}>{{ m | tojson }}{{ loop.index }}{% if m.content == 'stop' %}{{ m.x.y }}{% endif %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	var room Room
	for i, content := range []string{"first of all", "stop", "a", strings.Repeat("long ", maxKept/4), "b", ""} {
		t.Run(content, func(t *testing.T) {
			messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": " ` + content + ` "}, {"role": "user", "content": "` + content + `"}]`))
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := tmpl.Render(Input{Messages: messages})
			got, err := tmpl.RenderIn(&room, Input{Messages: messages})
			if (err == nil) != (wantErr == nil) || got.Text != want.Text || !slices.Equal(got.Spans, want.Spans) {
				t.Fatalf("render %d: got %.100q %v %v\nwant %.100q %v %v", i, got.Text, got.Spans, err, want.Text,
					want.Spans, wantErr)
			}
			if large := room.out.large(); large != (len(content) > maxKept/2) {
				t.Errorf("render %d of %d bytes: the room is large: %v", i, len(got.Text), large)
			}
		})
	}
}

// TestRendersLeaveNothing counts the objects that a render with loops, macros, filters with arguments and lists leaves
// to the garbage collector: the same small number for a long conversation as for a short one.
func TestRendersLeaveNothing(t *testing.T) {
	tmpl, err := Compile(`{% macro show(x, sep='-') %}{{ x | trim | default('', true) ~ sep }}{% endmacro %}` +
		`{% for m in messages %}{% set parts = m.content.split('o') %}{{ show(m.content) }}{{ [parts[0], parts[-1]] | tojson }}{{ m.content[::-1][0] if false }}` +
		`{% if m.role in ['user', 'tool'] and loop.last %}{{ m.content + '|' + m.role }}{% endif %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	var room Room
	allocs := func(n int) float64 {
		messages, err := ParseMessages(json.Raw(`[` + strings.Repeat(`{"role": "user", "content": "one two three "}, `, n) + `{"role": "tool", "content": "no"}]`))
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(50, func() {
			if _, err := tmpl.RenderIn(&room, Input{Messages: messages}); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocs(2), allocs(40); many > few+8 { // a pool may be emptied at any time
		t.Errorf("%v objects for 3 messages, %v for 41", few, many)
	}
}

// TestResultsOutliveTheRender renders again and again with the same buffers: a result must stay unchanged, and so must
// what a refused render left behind.
func TestResultsOutliveTheRender(t *testing.T) {
	tmpl, err := Compile(`{% for m in messages %}{% set x %}[{{ m.content | trim | upper ~ loop.index }}]{% endset %}{{ x + (m.content | tojson) }}{{ x.split('-')[-1] }}` +
		`{% if m.content == 'stop' %}{% set y %}{{ raise_exception(x) }}{% endset %}{% endif %}{% endfor %}`)
	if err != nil {
		t.Fatal(err)
	}
	var results []Result
	var wants []string
	for i := range 50 {
		content := strings.Repeat(string(rune('a'+i%26)), 1+37*i)
		if i%7 == 3 {
			content = "stop"
		}
		messages, err := ParseMessages(json.Raw(`[{"role": "user", "content": " ` + content + `-z "}, {"role": "user", "content": "` + content + `"}]`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := tmpl.Render(Input{Messages: messages})
		if content == "stop" {
			if err == nil || !strings.Contains(err.Error(), "[STOP2]") {
				t.Fatalf("got %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		up := strings.ToUpper(content)
		results = append(results, res)
		wants = append(wants, "["+up+"-Z1]"+`" `+content+`-z "`+"Z1]"+"["+up+"2]"+`"`+content+`"`+"["+up+"2]")
	}
	for i, res := range results {
		if res.Text != wants[i] {
			t.Fatalf("result %d is now\n%q, not\n%q", i, res.Text, wants[i])
		}
		if err := spansFit(&res); err != nil {
			t.Fatal(err)
		}
	}
}
