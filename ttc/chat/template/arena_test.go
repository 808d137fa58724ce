package template

import (
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestResultsOutliveTheRender renders again and again with the same buffers: a result must stay as it was, and so must what
// a refused render left behind.
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
