package source_test

import (
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
	"github.com/nat-go/nat-go/ttc/source/internal/source"
)

func TestChoiceOf(t *testing.T) {
	for name, c := range map[string]struct {
		label, first, second string
		want                 source.Chosen
	}{
		"a side":                   {`"left"`, "data.a", "data.b", source.First},
		"the other side":           {`"Right"`, "data.answer1", "data.answer2", source.Second},
		"a number":                 {`2`, "answer1", "answer2", source.Second},
		"a number from 0":          {`0`, "response_0", "response_1", source.First},
		"a number of neither":      {`0`, "answer1", "answer2", source.NoChoice},
		"a number in a text":       {`"1"`, "answer1", "answer2", source.First},
		"part of another number":   {`1`, "answer11", "answer12", source.NoChoice},
		"a letter":                 {`"B"`, "response_a", "response_b", source.Second},
		"a letter that ends both":  {`"a"`, "media", "data", source.NoChoice},
		"the key itself":           {`"response-1"`, "fields.response-1", "fields.response-2", source.First},
		"a key of another name":    {`"response-3"`, "fields.response-1", "fields.response-2", source.NoChoice},
		"a tie":                    {`"tie"`, "answer1", "answer2", source.Tie},
		"nothing":                  {`null`, "answer1", "answer2", source.Tie},
		"a list of one":            {`["left"]`, "answer1", "answer2", source.First},
		"a list of two":            {`["left", "right"]`, "answer1", "answer2", source.NoChoice},
		"an object with the label": {`{"selected": "right"}`, "answer1", "answer2", source.Second},
		"another object":           {`{"x": 1}`, "answer1", "answer2", source.NoChoice},
		"a key above the text":     {`"b"`, "said.a.text", "said.b.text", source.Second},
		"true":                     {`true`, "answer1", "answer2", source.NoChoice},
	} {
		t.Run(name, func(t *testing.T) {
			if got := source.ChoiceOf(json.Raw(c.label), c.first, c.second); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
