package natmodel

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/nat-go/nat-go/ttc/json"
)

// TestNumbersAreReadAsPydanticReadsThem compares with pydantic 2.13's answers; "-" is a refusal.
func TestNumbersAreReadAsPydanticReadsThem(t *testing.T) {
	cases := []struct{ in, float, integer string }{
		{`""`, "-", "-"},
		{`"_1"`, "-", "-"},
		{`"1_"`, "-", "-"},
		{`"1__0"`, "-", "-"},
		{`"1_0"`, "10", "10"},
		{`"1_0.5"`, "10.5", "-"},
		{`"1._5"`, "1.5", "-"},
		{`"1e1_0"`, "1e10", "-"},
		{`" 1_0 "`, "-", "10"},
		{`"\u00a01"`, "1", "1"},
		{`"\u20031\u2003"`, "1", "1"},
		{`"+1"`, "1", "1"},
		{`"++1"`, "-", "-"},
		{`"+-1"`, "-", "-"},
		{`"-+1"`, "-", "-"},
		{`"1e5"`, "1e5", "-"},
		{`"1.00"`, "1", "1"},
		{`"1.50"`, "1.5", "-"},
		{`"1."`, "1", "-"},
		{`".0"`, "0", "-"},
		{`"-007"`, "-7", "-7"},
		{`"+007"`, "7", "7"},
		{`"0_7"`, "7", "7"},
		{`"- 1"`, "-", "-"},
		{`"NaN"`, "NaN", "-"},
		{`"-nan"`, "NaN", "-"},
		{`"INFINITY"`, "+Inf", "-"},
		{`"-inf"`, "-Inf", "-"},
		{`"1e400"`, "+Inf", "-"},
		{`"1d5"`, "-", "-"},
		{`"0x10"`, "-", "-"},
		{`"0x1p3"`, "-", "-"},
		{`"٣"`, "-", "-"},
		{`"1 0"`, "-", "-"},
		{`"1\n"`, "1", "1"},
		{`"\u001c1"`, "-", "-"},
		{`"\ufeff1"`, "-", "-"},
		{`"10000000000000000000000"`, "1e22", "10000000000000000000000"},
		{`"1_000.0"`, "1000", "1000"},
		{`"1.0_0"`, "1", "-"},
		{`"+_1"`, "1", "-"},
		{`"1,5"`, "-", "-"},
		{`"1e"`, "-", "-"},
		{`"."`, "-", "-"},
		{`"5.e1"`, "50", "-"},
		{`".5e1"`, "5", "-"},
		{`"\ud83d"`, "-", "-"},
		{`"1\u0000"`, "-", "-"},
		{`"0_.0"`, "0", "-"},
		{`"0-1"`, "-", "-1"},
		{`true`, "1", "1"},
		{`false`, "0", "0"},
		{`5.0`, "5", "5"},
		{`5.5`, "5.5", "-"},
		{`1e18`, "1e18", "1000000000000000000"},
		{`9.3e18`, "9.3e18", "-"},
		{`NaN`, "NaN", "-"},
		{`Infinity`, "+Inf", "-"},
		{`100000000000000000000`, "1e20", "100000000000000000000"},
		{`1` + strings.Repeat("0", 400), "-", "1" + strings.Repeat("0", 400)},
		{`-0`, "0", "0"},
		{`[]`, "-", "-"},
		{`{}`, "-", "-"},
		{`null`, "-", "-"},
	}
	for _, c := range cases {
		t.Run(c.in, func(t *testing.T) {
			f, ok := ParseFloat(json.Raw(c.in))
			want, _ := json.Raw(map[string]string{"+Inf": "Infinity", "-Inf": "-Infinity"}[c.float] + c.float).Float64()
			switch c.float {
			case "-":
				if ok {
					t.Errorf("float %s: got %v, want a refusal", c.in, f)
				}
				want = f
			case "NaN":
				if f == f {
					t.Errorf("float %s: %v", c.in, f)
				}
				return
			case "+Inf":
				want = math.Inf(1)
			case "-Inf":
				want = math.Inf(-1)
			}
			if f != want || ok != (c.float != "-") {
				t.Errorf("float %s: got %v %v, want %s", c.in, f, ok, c.float)
			}
			n, ok := ParseInt(json.Raw(c.in))
			if ok != (c.integer != "-") || ok && n.Text != c.integer {
				t.Errorf("int %s: got %v %v, want %s", c.in, n.Text, ok, c.integer)
			}
		})
	}
	if n, _ := ParseInt(json.Raw("9223372036854775808")); n.Fits {
		t.Error("2^63 does not fit")
	}
}

const goodStep = `{"parent_id":"r","function_ancestry":{"function_id":"f","function_name":"n","parent_id":null,"more":1},
	"payload":{"event_type":"TTC_END","event_timestamp":1.5,"span_event_timestamp":"2","framework":"adk","name":"s","tags":["a"],
	"metadata":{"k":1},"data":{"x":[1]},"usage_info":{"token_usage":{"prompt_tokens":"3"},"num_llm_calls":2.0},"UUID":"u","extra":{}}}`

func TestParseStep(t *testing.T) {
	s, err := ParseStep(json.Raw(goodStep))
	if err != nil || s.EventType != "TTC_END" || string(s.Name) != `"s"` || string(s.Metadata) != `{"k":1}` || string(s.Data) != `{"x":[1]}` {
		t.Fatalf("%+v %v", s, err)
	}
	s, err = ParseStep(json.Raw(`{"parent_id":"r","function_ancestry":{"function_id":"f","function_name":"n"},"payload":{"event_type":"LLM_END","name":null,"data":null}}`))
	if err != nil || s.Name != nil || s.Data != nil || s.Metadata != nil {
		t.Fatalf("%+v %v", s, err)
	}
}

func TestParseStepNamesTheField(t *testing.T) {
	cases := []struct{ old, new, want string }{
		{goodStep, `[]`, "step: is an array"},
		{`"parent_id":"r",`, ``, "parent_id: is missing"},
		{`"parent_id":"r"`, `"parent_id":1`, "parent_id: is a number"},
		{`"function_name":"n"`, `"x":"n"`, "function_ancestry.function_name: is missing"},
		{`"parent_id":null`, `"parent_id":1`, "function_ancestry.parent_id: is a number"},
		{`"payload":{`, `"extra_top":1,"payload":{`, "extra_top: is not a field of a step"},
		{`"TTC_END"`, `"TTC_STOP"`, `payload.event_type: "TTC_STOP" is not a NAT event type`},
		{`"event_type":"TTC_END",`, ``, "payload.event_type: nothing"},
		{`"TTC_END"`, `"TTC_START"`, "payload.span_event_timestamp: only END events"},
		{`1.5`, `null`, "payload.event_timestamp: null is not a number"},
		{`1.5`, "1" + strings.Repeat("0", 309), "payload.event_timestamp: is an integer beyond the range of a float"},
		{`"adk"`, `"mine"`, "payload.framework"},
		{`"name":"s"`, `"name":3`, "payload.name: is a number"},
		{`["a"]`, `["a",1]`, "payload.tags: is a number"},
		{`["a"]`, `"a"`, "payload.tags: is a string"},
		{`{"k":1}`, `"k"`, "payload.metadata: is a string"},
		{`{"x":[1]}`, `[1]`, "payload.data: is an array"},
		{`"3"`, `"x"`, "payload.usage_info.token_usage.prompt_tokens"},
		{`2.0`, `2.5`, "payload.usage_info.num_llm_calls"},
		{`"UUID":"u"`, `"UUID":null`, "payload.UUID: is null"},
		{`"extra"`, `"\ud83d"`, "payload: has a key that is not Unicode text"},
		{`"x":[1]`, `"x\udc00":[1]`, "payload.data: has a key that is not Unicode text"},
	}
	for _, c := range cases {
		t.Run(c.old, func(t *testing.T) {
			in := strings.Replace(goodStep, c.old, c.new, 1)
			if in == goodStep {
				t.Fatal("nothing replaced:", c.old)
			}
			_, err := ParseStep(json.Raw(in))
			var fe *fieldError
			if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", c.new, err, c.want)
			}
		})
	}
	for _, number := range []string{"NaN", "-Infinity", "1e999", strings.Repeat("9", 308)} {
		if _, err := ParseStep(json.Raw(strings.Replace(goodStep, `1.5`, number, 1))); err != nil {
			t.Error("a float has every number of this size:", err)
		}
	}
	if _, err := ParseStep(json.Raw(strings.Replace(goodStep, `"parent_id":"r"`, `"parent_id":1,"parent_id":"r"`, 1))); err != nil {
		t.Error("the last of duplicate keys counts:", err)
	}
}
